import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { daemonOperations as ops } from '../../src/contract/daemon.ts';
import { startDaemon } from '../helpers/daemon-fixture.ts';

/** Text of so many characters, no piece of it like another. */
const prose = (name: string, chars: number) =>
  Array.from({ length: Math.ceil(chars / 16) }, (_, line) => `${name} line ${String(line).padStart(5, '0')}`)
    .join('\n')
    .slice(0, chars)
    .trim();
const soul = prose('soul', 20_600);
const agents = prose('agents', 15_000);
const start = { harness: 'claude-code', sessionKey: 's' };

describe('a harness that takes less than there is', () => {
  test('gets what fits, and is told of each cut in the text, in the answer and in the log', async () => {
    const daemon = startDaemon({ 'SOUL.md': soul, 'AGENTS.md': agents, 'USER.md': 'Ada sails.' });
    const { inject, truncated } = await daemon.call(ops.hookSessionStart, start);
    expect(inject.length).toBeLessThanOrEqual(9_800);
    expect(inject).toContain('Ada sails.');
    expect(truncated?.map(({ file }) => file)).toEqual(['AGENTS.md', 'SOUL.md']);
    for (const { file, given, of, path } of truncated ?? []) {
      const whole = file === 'SOUL.md' ? soul : agents;
      expect(given).toBeGreaterThan(2_000);
      expect(of).toBe(whole.length);
      expect(path).toBe(join(daemon.folder, file));
      const note = `[${file} is cut here: ${given} of ${of} characters are shown. Read the rest in ${path}]`;
      expect(inject).toContain(`${whole.slice(0, given)}\n${note}`);
    }
    const told = () => daemon.logged.filter(({ level, message }) => level === 'warn' && message.includes('cut'));
    expect(told()).toMatchObject([{ fields: { agent: 'default', receiver: 'claude-code', truncated } }]);
    await daemon.call(ops.hookSessionStart, start);
    expect(told()).toHaveLength(1);
  });

  test.each([
    ['pi', 48_000],
    ['OpenClaw', 48_000],
    ['opencode', 48_000],
    ['codex', 9_800],
    ['something-new', 9_800],
  ])('is %s with its own limit of %i characters', async (harness, charsMax) => {
    const files = { 'SOUL.md': soul, 'AGENTS.md': agents };
    const { inject, truncated } = await startDaemon(files).call(ops.hookSessionStart, { harness });
    expect(truncated === undefined).toBe(charsMax === 48_000);
    expect(inject.length).toBeLessThanOrEqual(charsMax);
    const large = await startDaemon({ 'SOUL.md': prose('soul', 90_000) }).call(ops.hookSessionStart, { harness });
    expect(large.inject.length).toBeLessThanOrEqual(charsMax);
    expect(large.inject.length).toBeGreaterThan(charsMax - 200);
    expect(large.inject).toContain('Memory Check Loop');
  });

  test('hooks.sessionStart.maxInjectChars is the limit of every harness', async () => {
    const yaml = 'hooks: { sessionStart: { maxInjectChars: 40000 } }\n';
    const daemon = startDaemon({ 'agent.yaml': yaml, 'SOUL.md': soul, 'AGENTS.md': agents });
    const { inject, truncated } = await daemon.call(ops.hookSessionStart, start);
    expect(truncated).toBeUndefined();
    expect(inject).toContain(soul);
    expect(inject).toContain(agents);
  });

  test('gets whole pairs of surrogates, and something of each file even where there is next to no room', async () => {
    const yaml = 'hooks: { sessionStart: { maxInjectChars: 1000 } }\n';
    const daemon = startDaemon({ 'agent.yaml': yaml, 'SOUL.md': '🙂'.repeat(5_000) });
    const { inject, truncated } = await daemon.call(ops.hookSessionStart, start);
    expect(inject.length).toBeLessThanOrEqual(1_000);
    expect(inject.isWellFormed()).toBe(true);
    expect(truncated).toMatchObject([{ file: 'SOUL.md', of: 10_000 }]);
    expect(inject).toContain('🙂🙂');
  });
});

describe('the runtime', () => {
  const runtime = { ...start, harness: 'signet-cli', contextTokens: 200_000 };

  test('gets files whole up to a quarter of the context window', async () => {
    const files = { 'SOUL.md': prose('soul', 100_000), 'AGENTS.md': agents, 'TOOLS.md': 'Tar for ropes.', 'MEMORY.md': 'The tide turns.' };
    const { inject, truncated } = await startDaemon(files).call(ops.hookSessionStart, runtime);
    expect(truncated).toBeUndefined();
    for (const text of Object.values(files)) expect(inject).toContain(text);
    const small = await startDaemon(files).call(ops.hookSessionStart, { ...runtime, contextTokens: 20_000 });
    expect(small.truncated?.map(({ file }) => file)).toEqual(['AGENTS.md', 'SOUL.md']);
    expect(small.inject.length).toBeLessThan(20_000 + 6_000);
    expect(small.inject.length).toBeGreaterThan(19_000);
  });

  test('identity.maxTokens goes before the quarter, and leaves room for a conversation', async () => {
    const given = async (maxTokens: number, contextTokens: number) => {
      const files = { 'agent.yaml': `identity: { maxTokens: ${maxTokens} }\n`, 'SOUL.md': prose('soul', 100_000) };
      return (await startDaemon(files).call(ops.hookSessionStart, { ...runtime, contextTokens })).truncated?.[0]?.given;
    };
    expect(await given(1_000, 1_000_000)).toBeLessThan(4_000);
    expect(await given(30_000, 40_000)).toBeUndefined();
    expect(await given(30_000, 10_000)).toBeLessThanOrEqual(7_500 * 4);
  });

  test('counts scripts whose characters are several bytes as more', async () => {
    const daemon = startDaemon({ 'SOUL.md': '海'.repeat(100_000) });
    const { truncated } = await daemon.call(ops.hookSessionStart, runtime);
    expect(truncated?.[0]?.given).toBeLessThanOrEqual(200_000 / 3);
  });
});

describe('skills', () => {
  const skill = (description: string) => `---\ndescription: ${description}\n---\n# How\nTie it twice.`;
  const files = { 'skills/knots/SKILL.md': skill('Ties knots'), 'skills/sails/SKILL.md': skill('Mends sails') };

  test('are named with what they are for, bodies are not', async () => {
    const { inject } = await startDaemon(files).call(ops.hookSessionStart, start);
    expect(inject).toContain('## Skills');
    expect(inject).toContain('- knots: Ties knots\n- sails: Mends sails');
    expect(inject).not.toContain('Tie it twice');
  });

  test('of the roster alone are named and read', async () => {
    const daemon = startDaemon({
      ...files,
      'agent.yaml': 'agents: { roster: [{ name: dot, skills: [sails] }, { name: kim, skills: [] }] }\n',
    });
    const { inject } = await daemon.call(ops.hookSessionStart, { ...start, agentId: 'dot' });
    expect(inject).toContain('- sails: Mends sails');
    expect(inject).not.toContain('knots');
    expect((await daemon.call(ops.hookSessionStart, { ...start, sessionKey: 'k', agentId: 'kim' })).inject).not.toContain('## Skills');
    expect(await daemon.call(ops.getSkill, { name: 'sails', agentId: 'dot' })).toEqual({
      name: 'sails',
      description: 'Mends sails',
      path: 'skills/sails/SKILL.md',
      content: skill('Mends sails'),
      total: skill('Mends sails').length,
      next: null,
    });
    for (const name of ['knots', '../skills/sails', 'none'])
      await expect(daemon.call(ops.getSkill, { name, agentId: 'dot' })).rejects.toMatchObject({ code: 'skill_not_found' });
  });

  test('that are many keep their names', async () => {
    const many = Object.fromEntries(Array.from({ length: 60 }, (_, n) => [`skills/skill-${n}/SKILL.md`, skill('x'.repeat(300))]));
    const { inject } = await startDaemon(many).call(ops.hookSessionStart, start);
    for (let n = 0; n < 60; n += 1) expect(inject).toContain(`- skill-${n}\n`);
    expect(inject.length).toBeLessThanOrEqual(9_800);
  });

  test('that are long are read page by page', async () => {
    const body = prose('step', 100_000);
    const daemon = startDaemon({ 'skills/long/SKILL.md': body });
    const pages: string[] = [];
    for (let offset: number | null = 0; offset !== null; ) {
      const page: { content: string; next: number | null } = await daemon.call(ops.getSkill, { name: 'long', offset });
      pages.push(page.content);
      offset = page.next;
    }
    expect(pages).toHaveLength(3);
    expect(pages.join('')).toBe(body);
  });
});

test('an agent is told which of its files no harness gets whole', async () => {
  const daemon = startDaemon({ 'SOUL.md': soul, 'USER.md': 'Ada sails.' });
  const { cuts } = (await daemon.call(ops.getAgent, { name: 'default' })).identity;
  expect(cuts.map(({ receiver, file }) => [receiver, file])).toEqual([
    ['claude-code', 'SOUL.md'],
    ['codex', 'SOUL.md'],
  ]);
  const { truncated } = await daemon.call(ops.hookSessionStart, start);
  expect(cuts[0]!.given).toBeLessThanOrEqual(truncated![0]!.given);
  expect(cuts[0]!.given).toBeGreaterThan(4_000);
});
