/**
 * Where the program writes what it did. Fields are data, the message a sentence that stays the same from call to call.
 * Prompts, injects, memories and secrets never go in above level debug; secrets never at all.
 */
export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

export type LevelName = 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'trace' | 'silent';

/** A logger whose least level may change while it is in use. */
export interface LeveledLogger extends Logger {
  level: LevelName;
}

export const silentLogger: Logger = { debug() {}, info() {}, warn() {}, error() {} };
