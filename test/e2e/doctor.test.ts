import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { tempFolder } from '../helpers/daemon-fixture.ts';
import { startModelServer } from '../helpers/model-server/server.ts';
import { startSignetProcess } from '../helpers/signet.ts';
import { wireEnvironment } from './rig.ts';

const LAUNCHER = fileURLToPath(new URL('../../bin/signet.js', import.meta.url));

/** `signet doctor --json` as a process of its own. */
function doctor(folder: string): Promise<{ code: number; findings: Record<string, string>[] }> {
  return new Promise((resolve) => {
    const env = { PATH: process.env.PATH, HOME: folder, SIGNET_PATH: folder };
    execFile(process.execPath, [LAUNCHER, 'doctor', '--json'], { env }, (error, out) =>
      resolve({ code: error ? Number(error.code ?? -1) : 0, findings: JSON.parse(out).findings }),
    );
  });
}

const about = (findings: Record<string, string>[], check: string) => findings.filter((finding) => finding.check?.startsWith(check));

test('doctor says what keeps a folder from working, and what to do', async () => {
  const folder = tempFolder({ 'agent.yaml': 'hooks: { sessionStrat: {} }\n' });
  const missing = await doctor(join(folder, 'nowhere'));
  expect(missing.code).toBe(1);
  expect(about(missing.findings, 'workspace')).toMatchObject([{ level: 'problem', fix: 'signet start makes it' }]);
  const broken = await doctor(folder);
  expect(broken.code).toBe(1);
  expect(about(broken.findings, 'workspace')).toMatchObject([{ level: 'ok' }]);
  expect(about(broken.findings, 'configuration')).toMatchObject([{ level: 'problem', text: expect.stringContaining('sessionStart') }]);
  expect(about(broken.findings, 'daemon')).toMatchObject([{ level: 'problem', fix: 'signet start' }]);
});

test('doctor tells of identity files that do not reach everybody whole, and of a provider that is away', async () => {
  const model = await startModelServer();
  const folder = tempFolder({ 'SOUL.md': 'I keep my word.\n'.repeat(2_000), 'agents/dot/SOUL.md': 'Calm.' });
  const signet = await startSignetProcess({ folder, env: wireEnvironment('anthropic', model.url) });
  try {
    const well = await doctor(folder);
    expect(well.code).toBe(0);
    for (const check of ['workspace', 'configuration', 'daemon', 'provider'])
      expect(about(well.findings, check)).toMatchObject([{ level: 'ok' }]);
    expect(about(well.findings, 'identity')).toMatchObject([
      {
        check: 'identity of default',
        level: 'note',
        text: expect.stringMatching(/^sessions of claude-code, codex begin with about \d+ of the 31999 characters of SOUL\.md/),
        fix: expect.stringContaining('hooks.sessionStart.maxInjectChars'),
      },
    ]);
  } finally {
    await signet.close();
    await model.close();
  }
});
