import type { PresenceStore } from '../core/cross-agent.ts';
import type { HookSession } from './hook-session.ts';
import { cutText, oneLine } from './inject-text.ts';

/** Sessions named, the newest; of more, only that there are more. */
const PEERS_MAX = 3;
/** Of a key or the name of a harness, which clients choose freely. */
const NAME_CHARS_MAX = 48;

/** Of an ISO time, up to its minutes. */
const MINUTE_CHARS = 16;

/** Who else works on the session's project just now, a line each for the newest; empty when nobody does. */
export async function peerLines(presence: Pick<PresenceStore, 'onProject'>, { key, project }: HookSession): Promise<string> {
  if (project === undefined) return '';
  const peers = await presence.onProject(project, { except: key, limit: PEERS_MAX + 1 });
  const named = (text: string): string => cutText(oneLine(text), NAME_CHARS_MAX);
  const lines = peers
    .slice(0, PEERS_MAX)
    .map(
      (peer) =>
        `- agent ${peer.agentId} in ${named(peer.harness)}, session ${named(peer.key)}, since ${peer.startedAt.slice(0, MINUTE_CHARS)}Z`,
    );
  return [...lines, ...(peers.length > PEERS_MAX ? ['- and more'] : [])].join('\n');
}
