import { test } from 'vitest';
import { runCrowd } from './crowd.ts';

test('20 sessions at once: every prompt ends once, and all readers of a session have the same log', async () => {
  await runCrowd({ sessions: 20, turns: 3, readers: 4 });
}, 60_000);
