import { mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'jsonc-parser';
import { expect, onTestFinished, test } from 'vitest';
import type { Logger } from '../../src/core/logger.ts';
import { createAgentSync } from '../../src/daemon/agent-sync/agent-sync.ts';
import { watchAgents } from '../../src/daemon/agent-sync/agent-watcher.ts';
import { type SyncTimer, TouchedAgents } from '../../src/daemon/agent-sync/touched-agents.ts';
import { readAgentYaml } from '../../src/daemon/agent-yaml.ts';
import { verifies } from '../conformance/verifies.ts';
import { tempFolder } from '../helpers/daemon-fixture.ts';
import { startSignet } from '../helpers/signet.ts';

const LONG = { timeout: 45_000 };
const TEST_TIMEOUT_MS = 90_000;
const ROSTER = 'agents:\n  roster:\n    - { name: dot, skills: [sailing] }\n    - name: rose\n';
const FILES = {
  'agent.yaml': ROSTER,
  'skills/sailing/SKILL.md': '',
  'SOUL.md': 'Soul of all.',
  'AGENTS.md': 'Rules of all.',
  'agents/dot/SOUL.md': 'Soul of dot.',
};
const OPENCLAW = `{
  // my gateway
  "gateway": { "port": 18789 },
  "agents": {
    "defaults": { "model": "x" },
    "list": [
      { "id": "main" }, // mine
    ],
  },
}
`;

interface Line {
  readonly message: string;
  readonly agent?: string;
  readonly changed?: boolean;
  readonly [key: string]: unknown;
}

function logger(): Logger & { lines: Line[]; synced(): string[] } {
  const lines: Line[] = [];
  const write = (fields: object, message: string) => void lines.push({ ...fields, message });
  const synced = () => lines.filter(({ message }) => message === 'agent synced').map(({ agent }) => agent!);
  return { debug: write, info: write, warn: write, error: write, lines, synced };
}

/** Runs what is due when it is told to, and no earlier. */
function handTimer(): SyncTimer & { fire(): void } {
  let due: (() => void) | undefined;
  return {
    now: () => 0,
    after: (_ms, run) => {
      due = run;
      return () => {
        due = undefined;
      };
    },
    fire: () => {
      const run = due;
      due = undefined;
      run?.();
    },
  };
}

async function startSync(files: Readonly<Record<string, string>>, home?: string) {
  const folder = tempFolder(files);
  const log = logger();
  const timer = handTimer();
  const { config } = readAgentYaml(folder);
  const sync = createAgentSync({ folder, config, home, log, timer });
  onTestFinished(() => sync.close());
  await sync.start();
  return { folder, log, timer, config, sync };
}

const agentsMd = (folder: string, agent: string): string => readFileSync(join(folder, 'agents', agent, 'workspace', 'AGENTS.md'), 'utf8');

verifies(['agents.sync.merged-identity', 'agents.sync.workspace'], async () => {
  const { folder, log } = await startSync(FILES);
  expect(agentsMd(folder, 'dot')).toContain('Soul of dot.');
  expect(agentsMd(folder, 'dot')).not.toContain('Soul of all.');
  expect(agentsMd(folder, 'dot')).toContain('Rules of all.');
  expect(agentsMd(folder, 'rose')).toContain('Soul of all.');
  expect(log.synced().sort()).toEqual(['dot', 'rose']);
});

verifies(['agents.sync.openclaw', 'agents.sync.idempotent', 'connectors.openclaw.deep-merge', 'connectors.openclaw.list.id'], async () => {
  const home = tempFolder({ '.openclaw/openclaw.json': OPENCLAW });
  const file = join(home, '.openclaw', 'openclaw.json');
  const first = await startSync(FILES, home);
  const text = readFileSync(file, 'utf8');
  const { agents, gateway } = parse(text, [], { allowTrailingComma: true });
  expect(gateway).toEqual({ port: 18789 });
  expect(agents.list.map(({ id, name }: { id: string; name: string }) => [id, name])).toEqual([
    ['main', undefined],
    ['dot', 'dot'],
    ['rose', 'rose'],
  ]);
  for (const comment of ['// my gateway', '// mine']) expect(text).toContain(comment);

  const stamps = () =>
    [file, join(first.folder, 'agents', 'dot', 'workspace', 'AGENTS.md')].map((path) => statSync(path, { bigint: true }).mtimeNs);
  const before = stamps();
  await first.sync.close();
  const again = createAgentSync({ folder: first.folder, config: first.config, home, log: first.log });
  await again.start();
  await again.close();
  expect(readFileSync(file, 'utf8')).toBe(text);
  expect(stamps()).toEqual(before);
});

verifies(
  [
    'connectors.openclaw.defaults-workspace',
    'connectors.openclaw.list.workspace',
    'connectors.openclaw.list.skills',
    'connectors.openclaw.list.identity',
    'connectors.openclaw.bindings',
  ],
  async () => {
    const home = tempFolder({ '.openclaw/openclaw.json': OPENCLAW });
    const yaml = `${ROSTER}  openclaw:\n    bindings:\n      - { agent: dot, match: { channel: telegram, accountId: sea } }\n`;
    const { folder } = await startSync({ ...FILES, 'agent.yaml': yaml }, home);
    const { agents, bindings } = parse(readFileSync(join(home, '.openclaw', 'openclaw.json'), 'utf8'), [], { allowTrailingComma: true });
    expect(agents.defaults).toEqual({ model: 'x', workspace: folder });
    const [, dot, rose] = agents.list;
    expect([dot.workspace, rose.workspace]).toEqual(['dot', 'rose'].map((name) => join(folder, 'agents', name, 'workspace')));
    expect(dot.skills).toEqual(['sailing']);
    expect(rose).not.toHaveProperty('skills');
    expect([dot.identity.theme, rose.identity.theme]).toEqual(['Soul of dot.', 'Soul of all.']);
    expect(bindings).toEqual([{ agentId: 'dot', match: { channel: 'telegram', accountId: 'sea' } }]);
  },
);

test('500 changes of 5 agents are one run, with each of them once', async () => {
  const names = Array.from({ length: 8 }, (_, index) => `agent-${index}`);
  const folder = tempFolder(Object.fromEntries(names.map((name) => [`agents/${name}/SOUL.md`, `Soul of ${name}.`])));
  const timer = handTimer();
  const runs: (readonly string[])[] = [];
  const noticed = new Set<string>();
  const touched = new TouchedAgents({ quietMs: 2_000, waitMsMax: 20_000, timer, run: async (changed) => void runs.push(changed) });
  const watcher = await watchAgents({
    ...{ folder, config: readAgentYaml(folder).config, log: logger(), names: () => names },
    touched: (changed) => {
      for (const name of changed) noticed.add(name);
      touched.touch(changed);
    },
  });
  onTestFinished(() => watcher.close());
  await watcher.ready;
  for (let change = 0; change < 500; change += 1) {
    writeFileSync(join(folder, 'agents', names[change % 5]!, 'SOUL.md'), `Version ${change}.`);
    if (change % 50 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  await expect.poll(() => noticed.size, LONG).toBe(5);
  timer.fire();
  expect(runs).toEqual([names.slice(0, 5)]);
  // A file of the workspace is everybody's; what is written for harnesses is nobody's.
  mkdirSync(join(folder, 'agents', 'agent-7', 'workspace'), { recursive: true });
  writeFileSync(join(folder, 'agents', 'agent-7', 'workspace', 'AGENTS.md'), 'Made.');
  writeFileSync(join(folder, 'agents', 'agent-7', 'MEMORY.md'), 'Made as well.');
  expect(noticed.has('agent-7')).toBe(false);
  writeFileSync(join(folder, 'USER.md'), 'Kim.');
  await expect.poll(() => noticed.size, LONG).toBe(8);
});

verifies(['agents.sync.debounce', 'agents.watch'], async () => {
  const { folder, log, timer } = await startSync(FILES);
  log.lines.length = 0;
  writeFileSync(join(folder, 'agents', 'dot', 'SOUL.md'), 'First.');
  writeFileSync(join(folder, 'agents', 'dot', 'IDENTITY.md'), '- **Name:** Dot the Second');
  const synced = (): string => {
    timer.fire();
    return agentsMd(folder, 'dot');
  };
  await expect.poll(synced, LONG).toMatch(/First\.[\s\S]*Dot the Second/);
  expect(new Set(log.synced())).toEqual(new Set(['dot']));
});

test('a first agent is noticed where there was none, and a personality that lies elsewhere', async () => {
  const { folder, config, log, timer, sync } = await startSync({ 'SOUL.md': 'Soul of all.' });
  expect(log.synced()).toEqual([]);
  mkdirSync(join(folder, 'agents', 'kim'), { recursive: true });
  writeFileSync(join(folder, 'agents', 'kim', 'SOUL.md'), 'Soul of kim.');
  const made = (): boolean => {
    timer.fire();
    return log.synced().includes('kim');
  };
  await expect.poll(made, LONG).toBe(true);
  expect(agentsMd(folder, 'kim')).toContain('Soul of kim.');

  mkdirSync(join(folder, 'voices'));
  writeFileSync(join(folder, 'voices', 'gruff.md'), 'Gruff.');
  Object.assign(config, { agents: { roster: [{ name: 'kim', personality: 'voices/gruff.md' }] } });
  sync.rosterChanged();
  const spoken = (): string => {
    timer.fire();
    return agentsMd(folder, 'kim');
  };
  await expect.poll(spoken, LONG).toContain('Gruff.');
  writeFileSync(join(folder, 'voices', 'gruff.md'), 'Gruff but kind.');
  await expect.poll(spoken, LONG).toContain('Gruff but kind.');
});

test('what cannot be written or parsed is left alone, with a warning that names it, and keeps nothing else back', async () => {
  const home = tempFolder({ '.openclaw/openclaw.json': '{ broken', '.clawdbot/clawdbot.json': '{}' });
  symlinkSync(join(home, '.openclaw'), join(home, '.moltbot'));
  const outside = tempFolder();
  const folder = tempFolder({ ...FILES, 'agents/rose/SOUL.md': Buffer.from([0xff, 0x61]).toString('latin1') });
  writeFileSync(join(folder, 'agents', 'rose', 'SOUL.md'), Buffer.from([0xff, 0x61]));
  symlinkSync(outside, join(folder, 'agents', 'dot', 'workspace'));
  const log = logger();
  const sync = createAgentSync({ folder, config: readAgentYaml(folder).config, home, log, timer: handTimer() });
  onTestFinished(() => sync.close());
  await sync.start();
  expect(readFileSync(join(home, '.openclaw', 'openclaw.json'), 'utf8')).toBe('{ broken');
  const warnings = log.lines.filter(({ problem, warning, detail }) => problem ?? warning ?? detail);
  expect(warnings).toEqual([
    expect.objectContaining({ agent: 'dot', detail: expect.stringContaining('leads out of the workspace') }),
    expect.objectContaining({ agent: 'rose', warning: expect.stringContaining('is not valid UTF-8') }),
    expect.objectContaining({ file: join(home, '.openclaw', 'openclaw.json'), problem: expect.stringContaining('no JSON') }),
  ]);
  expect(agentsMd(folder, 'rose')).toContain('\ufffda');
  const other = JSON.parse(readFileSync(join(home, '.clawdbot', 'clawdbot.json'), 'utf8'));
  expect(other.agents.list).toHaveLength(2);
});

test('OpenClaw is told at the configured path, not at all without a roster, and never when it is not to be', async () => {
  const home = tempFolder({ '.openclaw/openclaw.json': OPENCLAW });
  const usual = join(home, '.openclaw', 'openclaw.json');
  const own = (more: string) => `${ROSTER}  openclaw: { ${more} }\n`;
  await startSync({ 'SOUL.md': 'Soul of all.', 'agents/kim/SOUL.md': 'A folder alone.' }, home);
  await startSync({ ...FILES, 'agent.yaml': own('sync: false') }, home);
  const { folder } = await startSync({ ...FILES, 'agent.yaml': own('config: mine/claw.json'), 'mine/claw.json': '{}' }, home);
  expect(JSON.parse(readFileSync(join(folder, 'mine', 'claw.json'), 'utf8')).agents.list).toHaveLength(2);
  expect(readFileSync(usual, 'utf8')).toBe(OPENCLAW);
  const { log } = await startSync({ ...FILES, 'agent.yaml': own('config: mine/absent.json') }, home);
  expect(log.lines).toContainEqual(expect.objectContaining({ message: expect.stringContaining('names a file that is not there') }));
});

verifies(
  ['agents.watch.one-agent', 'agents.verify.watch', 'agents.verify.openclaw'],
  async () => {
    const home = tempFolder({ '.openclaw/openclaw.json': OPENCLAW });
    const folder = tempFolder(FILES);
    const log = logger();
    const signet = await startSignet({ folder, env: { HOME: home }, logger: log });
    onTestFinished(() => signet.close());
    const claw = (): string => readFileSync(join(home, '.openclaw', 'openclaw.json'), 'utf8');
    await expect.poll(claw, LONG).toContain('Soul of dot.');
    log.lines.length = 0;
    // Written again and again: it is not known when the first look at the files is over.
    const rewritten = (): string => {
      writeFileSync(join(folder, 'agents', 'dot', 'SOUL.md'), 'Another soul.');
      return claw();
    };
    await expect.poll(rewritten, { ...LONG, interval: 4_000 }).toContain('Another soul.');
    expect(log.synced()).toContain('dot');
    expect(log.synced()).not.toContain('rose');
    rmSync(join(folder, 'agents', 'dot'), { recursive: true });
    await fetch(`${signet.daemonUrl}/api/agents/dot`, { method: 'DELETE' });
    await expect.poll(claw, LONG).not.toContain('"dot"');
    expect(claw()).toContain('"rose"');
  },
  TEST_TIMEOUT_MS,
);
