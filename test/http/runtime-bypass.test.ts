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
