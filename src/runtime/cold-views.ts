import type { AppError } from '../core/errors.ts';
import type { SessionView } from '../core/session-view.ts';
import type { SignalLog } from '../core/signal-log.ts';
import { foldReadable, sessionNotFound } from './session-fold.ts';

/** Views of sessions that are not in memory, kept because lists and readers ask for them again and again. */
const COLD_VIEWS_MAX = 64;

/** What clients are shown of sessions that are not in memory. */
export class ColdViews {
  readonly #log: SignalLog;
  readonly #views = new Map<string, SessionView>();
  readonly #damaged = new Map<string, AppError>();

  constructor(log: SignalLog) {
    this.#log = log;
  }

  /** As far as the log can be read. @throws AppError `session_not_found`, `log_divergence` */
  async get(id: string): Promise<SessionView> {
    const card = await this.#log.card(id);
    if (!card) throw sessionNotFound(id);
    const known = this.#views.get(id);
    if (known && known.session.updatedAt === card.updatedAt) return known;
    const { view, damage } = await foldReadable(this.#log, id);
    this.forget(id);
    this.#views.set(id, view);
    if (damage) this.#damaged.set(id, damage);
    if (this.#views.size > COLD_VIEWS_MAX) this.forget(this.#views.keys().next().value!);
    return view;
  }

  /** What is damaged behind the view that is kept of a session. */
  damageOf(id: string): AppError | null {
    return this.#damaged.get(id) ?? null;
  }

  forget(id: string): void {
    this.#views.delete(id);
    this.#damaged.delete(id);
  }
}
