import { afterEach, expect, test } from 'vitest';
import { silentLogger } from '../../src/core/logger.ts';
import { surviveFaults } from '../../src/uncaught-faults.ts';

let stop: (() => void) | undefined;
afterEach(() => stop?.());

test('faults that nobody caught are logged with their cause; ten within a minute end the process', () => {
  const logged: unknown[] = [];
  const reasons: string[] = [];
  stop = surviveFaults({ ...silentLogger, error: (fields: object) => void logged.push(fields) }, (reason) => reasons.push(reason));
  const listener = process.listeners('uncaughtException').at(-1)!;
  const error = Object.assign(new Error('EMFILE'), { code: 'EMFILE' });
  for (let at = 0; at < 9; at += 1) listener(error, 'uncaughtException');
  expect(reasons).toEqual([]);
  expect(logged).toHaveLength(9);
  expect(logged[0]).toMatchObject({ err: error, origin: 'uncaughtException' });
  listener(error, 'unhandledRejection');
  expect(reasons).toEqual([expect.stringContaining('10 faults')]);
});
