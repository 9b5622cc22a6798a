import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Approvals, createApprovals } from '../../src/cli/chat-approvals.ts';
import { createChatView, describeEvent } from '../../src/cli/chat-view.ts';
import { createStyle } from '../../src/cli/terminal.ts';
import type { SessionEvent } from '../../src/client/session-stream.ts';
import { visibleJson, visibleText } from '../../src/core/visible-text.ts';
import { payloads, type Rig, readLog, startRig } from '../e2e/rig.ts';

/** Each makes a terminal, or an eye, miss what follows or stands beside it; by name. */
const HIDING: Readonly<Record<string, string>> = {
  'C1 control DCS': '\u0090',
  'C1 control CSI': '\u009b8m',
  'next line': '\u0085',
  escape: '\u001b[8m',
  backspace: '\b\b\b',
  'carriage return': '\r',
  delete: '\u007f',
  'right-to-left override': '\u202e',
  isolate: '\u2066',
  'zero-width space': '\u200b',
  'zero-width joiner': '\u200d',
  'byte order mark': '\ufeff',
  'tag letters': '\u{e0041}\u{e007f}',
  'variation selector': '\ufe0f',
  'line separator': '\u2028',
  'no-break space': '\u00a0',
  'braille blank': '\u2800',
  'Hangul filler': '\u3164',
  'lone surrogate': '\ud800',
  'pile of marks': 'a\u0301\u0301\u0301\u0301\u0301',
  'many spaces': ' '.repeat(400),
};
/** Printable as it is: everything but these is visible on any terminal. */
const UNSEEN = /[^\n\u0020-\u007e\u00a1-\u00ac\u00ae-\u024f]/u;

let rig: Rig;
let id: string;
let shown: string;
let turn: Promise<unknown>;
let approvals: Approvals;

async function askFor(input: object): Promise<void> {
  const session = await rig.client.session.create({});
  id = session.id;
  rig.model.script([{ toolCalls: [{ id: 'c0', name: 'shell', input }] }, { text: 'Done.' }]);
  turn = rig.client.session.prompt(id, { content: 'Run it.' }).catch(() => undefined);
  await expect.poll(async () => (await rig.client.approvals.list()).count, { timeout: 10_000 }).toBe(1);
  shown = '';
  const notes = { write: (text: string) => (shown += text) };
  const style = createStyle(notes, {});
  approvals = createApprovals({ client: rig.client, session, view: createChatView({ answer: null, notes, style }), style, person: true });
  await approvals.load();
}

describe('a question', () => {
  beforeEach(async () => {
    rig = await startRig();
    await rig.tool('shell', () => 'ran', { needsApproval: true });
  });
  afterEach(async () => {
    await rig.client.session.abort(id);
    await turn;
    await rig.close();
  });

  const decisions = async () => payloads(await readLog(rig.client, id), 'tool:approval:resolved').map(({ decision }) => decision);

  test('a command behind characters that a terminal obeys is seen before it can be allowed', async () => {
    const command = Object.values(HIDING).reduce((text, hiding, index) => `${text}${hiding}; touch hidden-${index}`, 'ls folder');
    await askFor({ command });
    while (!shown.includes('Allow it?')) await approvals.answer('');
    const whole = shown.replaceAll('\n', '');
    for (const [index] of Object.values(HIDING).entries()) expect(whole).toContain(`; touch hidden-${index}`);
    expect(UNSEEN.exec(shown)?.[0]).toBeUndefined();
    expect(shown).toContain('\\u0090; touch');
  });

  test.each(['y', 'a', 'always', ''])('%j agrees to nothing before the last page was shown', async (answer) => {
    await askFor({ command: `ls folder; ${'true; '.repeat(1_000)}touch hidden` });
    expect(shown).toMatch(/Page 1 of \d+/);
    const pages = Number(/Page 1 of (\d+)/.exec(shown)![1]);
    expect(pages).toBeGreaterThan(3);
    for (let page = 1; page < pages; page += 1) {
      expect([shown.includes('touch hidden'), shown.includes('Allow it?')]).toEqual([false, false]);
      expect(await approvals.answer(answer)).toBe(true);
      expect(await decisions()).toEqual([]);
    }
    expect(shown).toContain('touch hidden');
    expect(shown).toContain('Allow it?');
    await approvals.answer('y');
    expect(await decisions()).toEqual(['once']);
  });

  test('a call can be denied on its first page', async () => {
    await askFor({ command: 'x'.repeat(50_000) });
    await approvals.answer('n');
    expect(await decisions()).toEqual(['deny']);
  });

  test('the API gives the whole input as text that is safe to show', async () => {
    const input = { command: `ls\u202e${'x'.repeat(5_000)}\u0090; touch hidden` };
    await askFor(input);
    const { items } = await rig.client.approvals.list();
    expect(items[0]!.inputText).toBe(JSON.stringify(input).replace('\u202e', '\\u202e').replace('\u0090', '\\u0090'));
    expect(JSON.parse(items[0]!.inputText)).toEqual(input);
  });
});

describe('visible text', () => {
  test.each(Object.entries(HIDING))('%s is written as an escape, and nothing is lost', (_name, hiding) => {
    const seen = visibleText(`a${hiding}b`);
    expect(UNSEEN.exec(seen)?.[0]).toBeUndefined();
    expect(seen).toContain('\\u');
    expect(JSON.parse(visibleJson({ text: `a${hiding}b` }))).toEqual({ text: `a${hiding}b` });
  });

  test('text of people stays as it is', () => {
    for (const text of ['Grüße, naïve façade', '日本語 テスト', 'Việt Nam', 'हिन्दी', 'שלום', 'a  b\\u0090', '😀'])
      expect(visibleText(text)).toBe(text);
  });

  test('lines of tools show what a terminal would swallow, and how much is not shown', () => {
    const style = createStyle({ write: () => true }, {});
    const toolCall = (command: string) =>
      ({ name: 'tool:call', payload: { name: 'shell', input: { command } } }) as unknown as SessionEvent;
    expect(describeEvent(toolCall('ls\u0090; touch hidden'), style)).toContain('ls\\u0090; touch hidden');
    expect(describeEvent(toolCall('x'.repeat(1_000)), style)).toMatch(/x… \(\d+ more characters\)$/);
  });
});
