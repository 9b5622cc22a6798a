import { expect, test } from 'vitest';
import { silentLogger } from '../../src/core/logger.ts';
import { createStartPhases, START_WAITS } from '../../src/core/start-phases.ts';

test('a slow phase of the start is named while it lasts and when it is over; a fast one is not', async () => {
  const lines: [string, unknown][] = [];
  const heard = Promise.withResolvers<void>();
  const log = {
    ...silentLogger,
    warn: (fields: object, message: string) => {
      lines.push([message, (fields as { phase: string }).phase]);
      heard.resolve();
    },
    info: (fields: object, message: string) => void lines.push([message, (fields as { phase: string }).phase]),
  };
  const phases = createStartPhases(log, 20);
  expect(await phases.run('the port', Promise.resolve(7))).toBe(7);
  await phases.run('the log of signals', heard.promise);
  expect(lines[0]).toEqual([START_WAITS, 'the log of signals']);
  expect(lines.at(-1)).toEqual(['a phase of the start took long', 'the log of signals']);
  await expect(phases.run('the log of signals', Promise.reject(new Error('no disk')))).rejects.toThrow('no disk');
});
