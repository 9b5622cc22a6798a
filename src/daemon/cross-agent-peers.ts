import type { PresenceStore } from '../core/cross-agent.ts';
import type { HookSession } from './hook-session.ts';
import { cutText, oneLine } from './inject-text.ts';

/** Sessions named; the newest. */
const PEERS_MAX = 6;
/** Of a key or the name of a harness, which clients choose freely. */
const NAME_CHARS_MAX = 48;

/** Of an ISO time, up to its minutes. */
const MINUTE_CHARS = 16;

/** Who else works on the session's project just now, a line each; empty when nobody does. */
export async function peerLines(presence: Pick<PresenceStore, 'onProject'>, { key, project }: HookSession): Promise<string> {
  if (project === undefined) return '';
  const peers = await presence.onProject(project, { except: key, limit: PEERS_MAX });
  const named = (text: string): string => cutText(oneLine(text), NAME_CHARS_MAX);
  return peers
    .map(
      (peer) =>
        `- agent ${peer.agentId} in ${named(peer.harness)}, session ${named(peer.key)}, since ${peer.startedAt.slice(0, MINUTE_CHARS)}Z`,
    )
    .join('\n');
}
