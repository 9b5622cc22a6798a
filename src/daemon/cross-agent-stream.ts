import type { crossAgentOperations, Presence } from '../contract/cross-agent.ts';
import type { ParsedInputOf } from '../contract/operation.ts';
import type { MessageReader } from '../core/cross-agent.ts';
import type { RequestContext } from '../core/operation-call.ts';
import { encodeFrame, type SseWriter } from '../http/sse.ts';
import { type PeerDeps, readerOf } from './cross-agent-deps.ts';
import { cursorOf, wokenWithin } from './stream-wait.ts';

/** A silent stream says at this rate that it is alive; unit: milliseconds. */
export const PEER_HEARTBEAT_MS = 10_000;
/** Sessions are compared at most so often: hundreds may come and go in a moment; unit: milliseconds. */
const LOOK_EVERY_MS = 250;
/** Sessions a reader is told of; with more of them, those heard of last. */
const PEERS_MAX = 1_000;
/** Messages read at once. */
const PAGE_MESSAGES = 100;
/** Messages of the snapshot; the newest. */
const SNAPSHOT_MESSAGES = 50;

type Input = ParsedInputOf<(typeof crossAgentOperations)['streamAgentMessages']>;

interface Reading {
  readonly reader: MessageReader;
  readonly input: Input;
  readonly sse: SseWriter;
}

/**
 * GET /api/cross-agent/stream. Events have the name `message`, which is what `onmessage` of a browser hears, and say by `type` what they are;
 * only messages have ids, so only they move the cursor. Which sessions are there is a state: after a break the snapshot tells it anew.
 */
export async function streamAgentMessages(
  deps: Pick<PeerDeps, 'presence' | 'messages' | 'news'> & { readonly heartbeatMs?: number },
  input: Input,
  context: RequestContext,
  sse: SseWriter,
): Promise<void> {
  const reading = { reader: await readerOf(deps, input, context), input, sse };
  const asked = cursorOf(context.header('last-event-id')) ?? input.after;
  let wake = Promise.withResolvers<void>();
  // Before anything is read: what comes in between wakes the loop.
  const unsubscribe = deps.news.subscribe(() => wake.resolve());
  try {
    const { oldest, head } = await deps.messages.bounds();
    let peers = await sendBeginning(deps, reading, asked === undefined);
    // A cursor from another database is none: there is nothing behind it, for ever.
    let after = asked === undefined ? head : Math.min(asked, head);
    if (after + 1 < oldest) send(sse, { event: 'gap', data: { from: after + 1, to: oldest - 1 } });
    let lookAt = 0;
    while (!sse.closed.aborted) {
      wake = Promise.withResolvers<void>();
      after = await sendMessages(deps, reading, after);
      const waitMs = lookAt - performance.now();
      if (waitMs <= 0) {
        peers = await sendChanges(deps, reading, peers);
        lookAt = performance.now() + LOOK_EVERY_MS;
      }
      const isWoken = await wokenWithin(wake.promise, waitMs > 0 ? waitMs : (deps.heartbeatMs ?? PEER_HEARTBEAT_MS), sse.closed);
      if (!isWoken && waitMs <= 0 && !sse.closed.aborted) send(sse, { event: 'heartbeat', data: { head: after } });
    }
  } finally {
    unsubscribe();
  }
}

type Peers = ReadonlyMap<string, Presence>;
type StreamDeps = Pick<PeerDeps, 'presence' | 'messages'>;

function send(sse: SseWriter, frame: Parameters<typeof encodeFrame>[0]): boolean {
  return sse.frame(encodeFrame(frame));
}

async function peersOf({ presence }: StreamDeps, { reader, input }: Reading): Promise<Peers> {
  const { includeSelf, project } = input;
  const sessions = await presence.list({ ...reader, includeSelf, project, limit: PEERS_MAX });
  return new Map(sessions.map((session) => [session.key, session]));
}

async function sendBeginning(deps: StreamDeps, reading: Reading, withMessages: boolean): Promise<Peers> {
  const { reader, input, sse } = reading;
  const peers = await peersOf(deps, reading);
  const query = { unread: false, includeSent: input.includeSent, includeBroadcast: true, limit: SNAPSHOT_MESSAGES };
  const messages = withMessages ? await deps.messages.inbox(reader, query) : [];
  sse.open();
  send(sse, { event: 'message', data: { type: 'connected', agentId: reader.agentId, sessionKey: reader.sessionKey } });
  send(sse, { event: 'message', data: { type: 'snapshot', presence: [...peers.values()], messages } });
  return peers;
}

async function sendMessages(deps: StreamDeps, { reader, input, sse }: Reading, seq: number): Promise<number> {
  let after = seq;
  for (;;) {
    const page = await deps.messages.after(reader, after, { includeSent: input.includeSent, limit: PAGE_MESSAGES });
    for (const message of page) {
      after = message.seq;
      if (!send(sse, { id: after, event: 'message', data: { type: 'message', message } })) await sse.drained();
      if (sse.closed.aborted) return after;
    }
    if (page.length < PAGE_MESSAGES) return after;
  }
}

/** Who came, who went; that a session was heard of again is no news. */
async function sendChanges(deps: StreamDeps, reading: Reading, before: Peers): Promise<Peers> {
  const now = await peersOf(deps, reading);
  const told = ({ lastSeenAt: _, ...rest }: Presence): string => JSON.stringify(rest);
  const came = [...now.values()].filter((peer) => !before.has(peer.key) || told(before.get(peer.key)!) !== told(peer));
  const went = [...before.values()].filter((peer) => !now.has(peer.key));
  const changes = [
    ...came.map((presence) => ({ action: 'upsert', presence })),
    ...went.map((presence) => ({ action: 'remove', presence })),
  ];
  for (const change of changes) {
    if (!send(reading.sse, { event: 'message', data: { type: 'presence', ...change, activeCount: now.size } })) await reading.sse.drained();
    if (reading.sse.closed.aborted) break;
  }
  return now;
}
