import { postJson } from './http-client.ts';

/** Requests under way at once while sessions are made. */
const CREATES_AT_ONCE = 32;

/** New sessions of a runtime; their ids, in the order in which they were made. */
export async function createSessions(url: string, count: number): Promise<string[]> {
  const ids: string[] = [];
  await atOnce(count, CREATES_AT_ONCE, async () => {
    ids.push((await postJson<{ id: string }>(`${url}/session`, {})).id);
  });
  return ids;
}

/** Sessions end and their logs go. */
export async function endSessions(url: string, ids: readonly string[]): Promise<void> {
  await atOnce(ids.length, CREATES_AT_ONCE, async (index) => {
    const ended = await fetch(`${url}/session/${ids[index]}?purge=true`, { method: 'DELETE' });
    if (!ended.ok) throw new Error(`a session did not end: ${ended.status} ${await ended.text()}`);
  });
}

/** One prompt, answered when its turn has ended. */
export async function runTurn(url: string, session: string): Promise<void> {
  await postJson(`${url}/session/${session}/prompt`, { content: 'Say something of fifty tokens.' });
}

/** `turns` turns in each session; at most `atOnceMax` sessions are busy at once. */
export async function runTurns(url: string, sessions: readonly string[], turns: number, atOnceMax: number): Promise<void> {
  await atOnce(sessions.length, atOnceMax, async (index) => {
    for (let turn = 0; turn < turns; turn += 1) await runTurn(url, sessions[index]!);
  });
}

async function atOnce(count: number, max: number, work: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  const lane = async () => {
    while (next < count) {
      next += 1;
      await work(next - 1);
    }
  };
  await Promise.all(Array.from({ length: Math.min(max, count) }, lane));
}
