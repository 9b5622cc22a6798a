import { expect, test } from 'vitest';
import { serveDaemon } from '../helpers/daemon-server.ts';

const send = async (url: string, path: string, body: string | Uint8Array<ArrayBuffer>) => {
  const response = await fetch(`${url}${path}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  return { status: response.status, body: (await response.json()) as { id?: string } };
};

test('a body that is not UTF-8 is refused with the place, and nothing is stored', async () => {
  const daemon = await serveDaemon();
  const valid = Buffer.from('{"content":"ä � \u{1f9a9}"}');
  expect(await send(daemon.url, '/api/memory/remember', new Uint8Array(valid))).toMatchObject({ body: { content: 'ä � \u{1f9a9}' } });
  const bodies: [number[], number][] = [
    [[...Buffer.from('{"content":"ä � '), 0xe4, ...Buffer.from('"}')], 19],
    [[...Buffer.from('{"content":"'), 0xf0, 0x9f, 0xa6, ...Buffer.from('"}')], 12],
    [[...Buffer.from('{"content":"'), 0xed, 0xa0, 0x80, ...Buffer.from('"}')], 12],
  ];
  for (const path of ['/api/memory/remember', '/api/hooks/remember']) {
    for (const [bytes, at] of bodies) {
      const refused = await send(daemon.url, path, new Uint8Array(bytes));
      expect(refused).toMatchObject({ status: 400, body: { code: 'invalid_json', detail: expect.stringContaining(`from byte ${at} on`) } });
    }
  }
  expect((await daemon.get('/api/memories')).body.total).toBe(1);
});

test('half of a surrogate pair is refused by name; hooks, whose answer nobody reads, keep the rest of the text', async () => {
  const daemon = await serveDaemon();
  const bodies: [string, string][] = [
    ['{"content":"cut \\ud83e"}', '/content'],
    ['{"content":"x","tags":["a","\\udd9a b"]}', '/tags/1'],
    ['{"content":"x","\\ud83e":1}', ''],
  ];
  for (const [body, pointer] of bodies) {
    const refused = await send(daemon.url, '/api/memory/remember', body);
    expect(refused).toMatchObject({ status: 400, body: { code: 'invalid_json', errors: [{ pointer }] } });
  }
  expect(await send(daemon.url, '/api/memory/remember', '{"content":"whole \\ud83e\\udd9a"}')).toMatchObject({ status: 200 });
  const hook = await send(daemon.url, '/api/hooks/remember', '{"content":"heron \\ud83e"}');
  expect(hook).toMatchObject({ status: 200, body: { saved: true } });
  expect((await daemon.get(`/api/memory/${hook.body.id}`)).body.content).toBe('heron �');
});
