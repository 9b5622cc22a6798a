import { chmodSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { systemKeyring } from '../../src/store/secret-keyring.ts';
import { tempFolder } from '../helpers/daemon-fixture.ts';

const KEY = 'ab'.repeat(32);

/** A folder with a stand-in for a command of the system, which writes down how it was called. */
function withTool(name: string, script: string): { readonly env: NodeJS.ProcessEnv; read(file: string): string } {
  const folder = tempFolder({ [name]: `#!/bin/sh\necho "$*" >> "$(dirname "$0")/args"\n${script}\n` });
  chmodSync(join(folder, name), 0o755);
  return { env: { PATH: `${folder}:/usr/bin:/bin` }, read: (file) => readFileSync(join(folder, file), 'utf8') };
}

test.each([
  ['darwin', 'security', ['-i', `find-generic-password -s signet -a vault-1 -w`]],
  ['linux', 'secret-tool', ['store --label=Signet secrets service signet account vault-1', 'lookup service signet account vault-1']],
] as const)('on %s the key goes to %s by its standard input, and is no argument', async (platform, tool, calls) => {
  const { env, read } = withTool(tool, `case "$1" in find*|lookup) echo ${KEY};; *) cat >> "$(dirname "$0")/stdin";; esac`);
  const keyring = systemKeyring(env, platform)!;
  expect(await keyring.write('vault-1', KEY)).toBe(true);
  expect(await keyring.read('vault-1')).toBe(KEY);
  expect(read('args').trim().split('\n')).toEqual(calls);
  expect(read('stdin')).toContain(KEY);
});

test('one that is not there, refuses, or has no such key, is no keyring', async () => {
  const absent = systemKeyring({ PATH: tempFolder() }, 'linux')!;
  expect([await absent.write('vault-1', KEY), await absent.read('vault-1')]).toEqual([false, undefined]);
  const refusing = systemKeyring(withTool('secret-tool', 'exit 1').env, 'linux')!;
  expect([await refusing.write('vault-1', KEY), await refusing.read('vault-1')]).toEqual([false, undefined]);
  expect(systemKeyring({}, 'win32')).toBeUndefined();
});
