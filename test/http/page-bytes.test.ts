import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Signal } from '../../src/contract/signal.ts';
import { type Rig, readLog, startRig } from '../e2e/rig.ts';

const MIB = 1_048_576;
/** No compaction: what was said stays as it was. */
const YAML =
  'runtime: { providers: { openai-compatible: { kind: openai-compatible, baseUrl: $MODEL/v1, models: { scripted: { contextTokens: 10000000 } } } } }\n';
/** One page, and one item that was the last to fit. */
const ANSWER_BYTES_MAX = 5.5 * MIB;

let rig: Rig;
let id: string;
beforeAll(async () => {
  rig = await startRig({ yaml: YAML, wire: 'chat' });
  ({ id } = await rig.client.session.create({}));
  for (let turn = 0; turn < 20; turn += 1) await rig.client.session.prompt(id, { content: `${turn} ${'x'.repeat(490_000)}` });
});
afterAll(() => rig.close());

async function textOf(url: string): Promise<{ text: string; link: string | null }> {
  const answer = await fetch(url);
  expect(answer.status).toBe(200);
  const text = await answer.text();
  expect(text.length).toBeLessThan(ANSWER_BYTES_MAX);
  return { text, link: answer.headers.get('link') };
}

test('pages of events end by their size, and together hold every signal once', async () => {
  const all: Signal[] = [];
  let pages = 0;
  for (let after: number | null = 0; after !== null; pages += 1) {
    const { text } = await textOf(`${rig.runtimeUrl}/session/${id}/events?limit=1000&after=${after}`);
    const page = JSON.parse(text) as { items: Signal[]; next: number | null };
    all.push(...page.items);
    after = page.next;
  }
  expect(pages).toBeGreaterThan(2);
  expect(all.map(({ seq }) => seq)).toEqual(all.map((_, index) => index + 1));
  expect(all).toEqual(await readLog(rig.client, id));
});

test.each(['?limit=1000', '?limit=1000&after=0'])(
  'pages of messages (%s) end by their size, and Link leads to the others',
  async (query) => {
    const prompts = new Set<string>();
    let pages = 0;
    for (let path: string | undefined = `/session/${id}/messages${query}`; path !== undefined; pages += 1) {
      const { text, link } = await textOf(rig.runtimeUrl + path);
      for (const { role, content } of JSON.parse(text) as { role: string; content: string }[])
        if (role === 'user') prompts.add(content.split(' ', 1)[0]!);
      path = link?.match(/<(.+?)>/)?.[1];
    }
    expect(pages).toBeGreaterThan(2);
    expect([...prompts].map(Number).sort((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, turn) => turn));
  },
);

test('the health counts the sessions there are, after they are created, ended and purged', async () => {
  const { client, runtimeUrl } = rig;
  const countListed = async () => {
    const counted: Record<string, number> = {};
    for (const { state } of (await client.session.list({ limit: 1_000 })).items) counted[state] = (counted[state] ?? 0) + 1;
    return counted;
  };
  // The two are asked one after the other: a session may change its state in between.
  const expectCount = async (count: number) => {
    const isSame = async () => {
      const [listed, { sessions }] = [await countListed(), await client.health()];
      const sum = Object.values(listed).reduce((all, one) => all + one, 0);
      return { sum, isSame: JSON.stringify(Object.entries(listed).sort()) === JSON.stringify(Object.entries(sessions.byState).sort()) };
    };
    await expect.poll(isSame, { timeout: 10_000 }).toEqual({ sum: count, isSame: true });
  };
  const [first, second] = await Promise.all([client.session.create({}), client.session.create({}), client.session.create({})]);
  await expectCount(4);
  await client.session.end(first.id);
  await client.session.end(second.id);
  await expectCount(4);
  await fetch(`${runtimeUrl}/session/${second.id}?purge=true`, { method: 'DELETE' });
  await expectCount(3);
});
