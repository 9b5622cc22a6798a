import { afterEach, expect, test } from 'vitest';
import { payloads, type Rig, readLog, startRig } from './rig.ts';

let rig: Rig;
afterEach(() => rig.close());

const USED = { usage: { inputTokens: 120, outputTokens: 30 } };

test('a call that breaks off is counted as far as the provider has told what it used', async () => {
  rig = await startRig();
  rig.model.script([
    { text: 'one two three', fault: { kind: 'cut', after: 2 }, ...USED },
    { text: 'done', usage: { inputTokens: 5, outputTokens: 1 } },
  ]);
  const { id } = await rig.client.session.create({});
  const answer = await rig.client.session.prompt(id, { content: 'go' });

  const log = await readLog(rig.client, id);
  const [error] = payloads(log, 'harness:error') as { usage: { inputTokens: number; outputTokens: number }; costUsd: number }[];
  expect(error).toMatchObject({ code: 'provider_stream_cut', usage: { inputTokens: 120 }, costUsd: expect.any(Number) });
  expect(answer.usage.inputTokens).toBe(125);
  expect((await rig.client.session.get(id)).usage).toEqual(answer.usage);
  expect(payloads(log, 'turn:end')).toMatchObject([{ usage: answer.usage }]);
  expect(await rig.client.session.verify(id)).toMatchObject({ verified: true });
});

test('a call that is aborted is counted too', async () => {
  rig = await startRig();
  rig.model.script([{ text: 'one two three four', fault: { kind: 'stall', after: 2 }, ...USED }]);
  const { id } = await rig.client.session.create({});
  const answered = rig.client.session.prompt(id, { content: 'go' });
  for await (const { name } of rig.client.session.stream(id)) if (name === 'text:delta') break;
  await rig.client.session.abort(id);
  expect(await answered).toMatchObject({ usage: { inputTokens: 120 } });

  const log = await readLog(rig.client, id);
  expect(payloads(log, 'turn:end')).toMatchObject([{ stopReason: 'cancelled', usage: { inputTokens: 120 } }]);
  const { usage, costUsd } = await rig.client.session.get(id);
  expect(usage.inputTokens).toBe(120);
  expect(costUsd).toBeGreaterThan(0);
});

test.each(['responses', 'chat'] as const)(
  '%s, which tell their count last, are estimated and marked when they are aborted',
  async (wire) => {
    rig = await startRig({ wire });
    rig.model.script([{ text: 'one two three four', fault: { kind: 'stall', after: 2 }, ...USED }]);
    const { id } = await rig.client.session.create({});
    const answered = rig.client.session.prompt(id, { content: 'go' });
    for await (const { name } of rig.client.session.stream(id)) if (name === 'text:delta') break;
    await rig.client.session.abort(id);

    const { usage } = await answered;
    expect(usage).toMatchObject({ estimated: true });
    expect(Math.min(usage.inputTokens, usage.outputTokens)).toBeGreaterThan(0);
    const session = await rig.client.session.get(id);
    expect(session.usage).toEqual(usage);
    if (wire === 'responses') expect(session.costUsd).toBeGreaterThan(0);
    expect(await rig.client.session.verify(id)).toMatchObject({ verified: true });
  },
);
