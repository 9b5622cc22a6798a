import { DEFAULT_AGENT } from '../contract/ids.ts';
import type { SynthesisSchedule } from '../contract/synthesis.ts';
import type { JobDeps } from './job-deps.ts';
import { synthesisSettings } from './synthesis-settings.ts';

const DAY_MS = 86_400_000;
/** Undefined: only when somebody asks. */
const PERIOD_MS: Readonly<Record<SynthesisSchedule, number | undefined>> = { daily: DAY_MS, weekly: 7 * DAY_MS, 'on-demand': undefined };

/**
 * Queue the synthesis of the workspace's MEMORY.md when its time has come and there is something new to say. Other agents' files are written
 * when somebody asks for it.
 */
export async function addDueSynthesis(deps: JobDeps): Promise<void> {
  const { enabled, schedule, provider } = synthesisSettings(deps.config, deps.modelFor);
  const periodMs = PERIOD_MS[schedule];
  if (!enabled || periodMs === undefined || provider === null) return;
  const { writtenAtMs } = await deps.heads.get(DEFAULT_AGENT);
  const newest = await deps.temporal.newestMs(DEFAULT_AGENT);
  if (newest === undefined || newest <= (writtenAtMs ?? 0)) return;
  if (writtenAtMs !== null && deps.clock.now() - writtenAtMs < periodMs) return;
  // One that has used up its attempts is a person's matter until the next time.
  const [last] = await deps.jobs.list({ kind: 'synthesis', agentId: DEFAULT_AGENT, limit: 1 });
  if (last?.state === 'dead' && deps.clock.now() - Date.parse(last.createdAt) < periodMs) return;
  await deps.jobs.add({ kind: 'synthesis', agentId: DEFAULT_AGENT, payload: { trigger: 'scheduled' } });
}
