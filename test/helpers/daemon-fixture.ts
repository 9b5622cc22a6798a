import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { InputOf, Operation, OutputOf } from '../../src/contract/operation.ts';
import type { Logger } from '../../src/core/logger.ts';
import { readAgentYaml } from '../../src/daemon/agent-yaml.ts';
import { type Daemon, openDaemon } from '../../src/daemon/daemon.ts';
import { type CallContext, callHandler } from './call-handler.ts';

export const START_MS = Date.parse('2025-03-03T12:00:00.000Z');

/** A folder with these files, gone when the test is over. */
export function tempFolder(files: Readonly<Record<string, string | Buffer>> = {}): string {
  const folder = mkdtempSync(join(tmpdir(), 'signet-test-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), content);
  }
  return folder;
}

export interface TestDaemon {
  readonly folder: string;
  readonly clock: { ms: number; now(): number };
  readonly logged: { level: string; fields: object; message: string }[];
  call<Op extends Operation>(operation: Op, input: InputOf<Op>, context?: CallContext): Promise<OutputOf<Op>>;
  /** Close and open again on the same folder. */
  reopen(): void;
}

/** A daemon without server on real files, with a clock that stands still. */
export function startDaemon(files: Readonly<Record<string, string | Buffer>> = {}, folder = tempFolder(files)): TestDaemon {
  const clock = { ms: START_MS, now: () => clock.ms };
  const logged: TestDaemon['logged'] = [];
  const write = (level: string) => (fields: object, message: string) => void logged.push({ level, fields, message });
  const log: Logger = { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
  const info = { version: '0.0.0-test', host: '127.0.0.1', port: 3850, startedAtMs: START_MS, shuttingDown: false };
  const open = (): Daemon => openDaemon({ folder, config: readAgentYaml(folder), clock, log, info, openapi: () => ({ openapi: '3.1.0' }) });
  let daemon = open();
  onTestFinished(() => daemon.close());
  return {
    folder,
    clock,
    logged,
    call: (operation, input, context) => callHandler(daemon.handlers, operation, input, context),
    reopen() {
      daemon.close();
      daemon = open();
    },
  };
}
