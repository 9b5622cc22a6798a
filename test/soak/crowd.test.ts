import { test } from 'vitest';
import { runCrowd } from '../e2e/crowd.ts';

test('200 sessions at once: every prompt ends once, and all readers of a session have the same log', async () => {
  await runCrowd({ sessions: 200, turns: 3, readers: 4 });
});
