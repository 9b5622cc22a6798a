import { expect, onTestFinished, test } from 'vitest';
import { daemonOperations as ops } from '../../src/contract/daemon.ts';
import { startSignet } from '../helpers/signet.ts';

test('two sessions under one key: the end of one leaves the bypass of the other, the end of both frees the key', async () => {
  const { client, daemon, close } = await startSignet();
  onTestFinished(close);
  await daemon.call(ops.remember, { content: 'likes green tea from Uji' });
  const one = await client.session.create({ sessionKey: 'kk' });
  const two = await client.session.create({ sessionKey: 'kk' });
  const recalled = async (id: string) => {
    await client.session.prompt(id, { content: 'which green tea from Uji?' });
    const { items } = await client.session.events(id, { limit: 1_000 });
    return items.findLast(({ name, payload }) => name === 'hook:end' && payload.hook === 'user-prompt-submit')?.payload;
  };
  expect(await recalled(one.id)).toMatchObject({ bypassed: false, memories: 1 });
  expect(await recalled(two.id)).toMatchObject({ bypassed: false });
  await daemon.call(ops.setBypass, { key: 'kk', enabled: true });

  await client.session.end(one.id);
  expect(await daemon.call(ops.getClaim, { key: 'kk' })).toMatchObject({ key: 'kk', bypassed: true });
  expect(await recalled(two.id)).toMatchObject({ bypassed: true, memories: 0 });

  await client.session.end(two.id);
  await expect(daemon.call(ops.getClaim, { key: 'kk' })).rejects.toMatchObject({ code: 'session_not_found' });
});

test('a bypass that the daemon is told of shows in the session at once, once, and with who asked', async () => {
  const { client, daemon, close } = await startSignet();
  onTestFinished(close);
  const { id } = await client.session.create({ sessionKey: 'kk' });
  const other = await client.session.create({ sessionKey: 'other' });
  const asked = { headers: { 'x-signet-actor': 'operator' } };
  expect(await client.session.get(id)).toMatchObject({ bypassed: false });

  await daemon.call(ops.setBypass, { key: 'session:kk', enabled: true }, asked);
  expect([await client.session.get(id), await client.session.get(other.id)]).toMatchObject([{ bypassed: true }, { bypassed: false }]);
  await daemon.call(ops.setBypass, { key: 'kk', enabled: true }, asked);
  await daemon.call(ops.setBypass, { key: 'kk', enabled: false }, asked);
  expect(await client.session.get(id)).toMatchObject({ bypassed: false });

  const { items } = await client.session.events(id, { limit: 1_000 });
  expect(items.filter(({ name }) => name === 'session:bypass:changed').map(({ payload }) => payload)).toEqual([
    { bypassed: true, by: 'operator' },
    { bypassed: false, by: 'operator' },
  ]);
});
