import { AppError } from '../core/errors.ts';

export interface Crash {
  readonly attempt: number;
  readonly delayMs: number;
  readonly error: string;
}

/** What is known of sessions that crashed or whose logs are damaged, and the waits until they are brought back. */
export class SupervisorCrashes {
  /** What the log is told when a crashed session is back. */
  readonly #crashes = new Map<string, Crash>();
  /** Why a session that is put aside cannot be brought back, when that is not its crashes. */
  readonly #damaged = new Map<string, AppError>();
  readonly #timers = new Set<NodeJS.Timeout>();

  note(id: string, error: unknown): void {
    this.#crashes.set(id, { attempt: 0, delayMs: 0, error: error instanceof Error ? error.name : 'Error' });
  }

  plan(id: string, attempt: number, delayMs: number): void {
    const crash = this.#crashes.get(id);
    if (crash) this.#crashes.set(id, { ...crash, attempt, delayMs });
  }

  /** Told once. */
  take(id: string): Crash | undefined {
    const crash = this.#crashes.get(id);
    this.#crashes.delete(id);
    return crash;
  }

  errorOf(id: string): string {
    return this.#crashes.get(id)?.error ?? 'Error';
  }

  damage(id: string, error: AppError): void {
    this.#damaged.set(id, error);
  }

  /** Why a session that is put aside is not brought back. */
  refusal(id: string): AppError {
    const detail = `session ${id} crashed again and again and is put aside; POST /session/${id}/resume tries it once more`;
    return this.#damaged.get(id) ?? new AppError('session_quarantined', { detail });
  }

  forgive(id: string): void {
    this.#damaged.delete(id);
  }

  later(delayMs: number, run: () => void): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      run();
    }, delayMs);
    timer.unref();
    this.#timers.add(timer);
  }

  stop(): void {
    for (const timer of this.#timers) clearTimeout(timer);
  }
}
