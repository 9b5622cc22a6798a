import { expect } from 'vitest';
import { openSse, type SseFrame } from '../helpers/sse-client.ts';
import { payloads, readLog, startRig } from './rig.ts';

export interface Crowd {
  readonly sessions: number;
  readonly turns: number;
  readonly readers: number;
}

/** Many sessions at once, each with turns that use tools and with several readers; asserts that each prompt ended once and all readers agree. */
export async function runCrowd({ sessions, turns, readers }: Crowd): Promise<void> {
  const rig = await startRig();
  try {
    await rig.tool('look', ({ n }) => `found ${n}`);
    rig.model.respond(({ body }) => {
      const last = JSON.stringify((body.messages as unknown[]).at(-1));
      if (last.includes('tool_result')) return { text: 'It is found, and here it is.', chunks: 6, delayMs: 1 };
      return { text: 'Let me look.', toolCalls: [1, 2].map((n) => ({ name: 'look', input: { n } })) };
    });
    const ids = await Promise.all(Array.from({ length: sessions }, async () => (await rig.client.session.create({})).id));
    const streams = await Promise.all(
      ids.map((id) => Promise.all(Array.from({ length: readers }, () => openSse(`${rig.runtimeUrl}/session/${id}/stream`)))),
    );
    await Promise.all(
      ids.map(async (id) => {
        for (let turn = 0; turn < turns; turn += 1) {
          const answer = await rig.client.session.prompt(id, { content: `Find ${turn}.`, promptId: `p${turn}` });
          expect(answer).toMatchObject({ id: `p${turn}`, status: 'completed', content: 'It is found, and here it is.' });
          expect(answer.toolResults.length).toBe(2);
        }
        await rig.client.session.end(id);
      }),
    );
    for (const [index, id] of ids.entries()) {
      const log = await readLog(rig.client, id);
      expect(log.map(({ seq }) => seq)).toEqual(log.map((_, position) => position + 1));
      const asked = payloads(log, 'prompt:received').map(({ promptId }) => promptId);
      expect(asked).toEqual(Array.from({ length: turns }, (_, turn) => `p${turn}`));
      const ended = ['turn:end', 'turn:rejected', 'prompt:cancelled'].flatMap((name) => payloads(log, name));
      expect(ended.map(({ promptId }) => promptId)).toEqual(asked);
      for (const stream of streams[index]!) {
        await stream.until(({ event }) => event === 'end');
        expect(stream.frames.filter(isStored).map(({ data }) => data)).toEqual(log);
        expect(textOf(stream.frames)).toBe('Let me look.It is found, and here it is.'.repeat(turns));
      }
    }
  } finally {
    await rig.close();
  }
}

function isStored({ data }: SseFrame): boolean {
  return data.seq !== undefined;
}

function textOf(frames: readonly SseFrame[]): string {
  return frames
    .filter(({ event }) => event === 'text:delta')
    .map(({ data }) => data.content)
    .join('');
}
