import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const FOLDER = fileURLToPath(new URL('../../examples/', import.meta.url));
const RUN_TIMEOUT_MS = 60_000;

test.each(readdirSync(FOLDER).filter((name) => name.endsWith('.ts')))(
  'examples/%s runs and its assertions hold',
  async (name) => {
    const env = { PATH: process.env.PATH, SIGNET_LOG_LEVEL: 'silent' };
    const { stdout } = await promisify(execFile)(process.execPath, [`${FOLDER}${name}`], { env, timeout: RUN_TIMEOUT_MS });
    expect(stdout).not.toBe('');
  },
  RUN_TIMEOUT_MS,
);
