import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CliContext } from '../../src/cli/context.ts';
import { createProgram } from '../../src/cli/program.ts';
import { withReference } from '../../src/cli/reference.ts';
import { daemonOperations } from '../../src/contract/daemon.ts';
import { runtimeOperations } from '../../src/contract/runtime.ts';
import { configurationPage } from './config-page.ts';
import { errorsPage, signalsPage } from './contract-pages.ts';
import { machinesPage } from './machine-page.ts';
import { operationsPage } from './operation-page.ts';

const DAEMON = `The daemon owns memories, agents, hooks, the registry of sessions and the configuration. It listens on port 3850.
Bodies are \`application/json\`. The same description as OpenAPI 3.1 is at \`GET /openapi.json\`.`;

const RUNTIME = `The runtime owns the execution loop: sessions, prompts, streams, approvals. It listens on port 7700.
Bodies are \`application/json\`. The same description as OpenAPI 3.1 is at \`GET /openapi.json\`.`;

/** The part between the markers is made from the program; the rest is written by hand. */
function cliPage(root: string): string {
  const program = createProgram({ version: '' } as CliContext);
  return withReference(readFileSync(join(root, 'docs/cli.md'), 'utf8'), program);
}

/** Path from the repository's root to the text of every generated page. */
export async function generatedPages(root: string): Promise<Map<string, string>> {
  return new Map([
    ['docs/errors.md', errorsPage()],
    ['docs/signals.md', signalsPage()],
    ['docs/machines.md', await machinesPage(root)],
    ['docs/configuration.md', configurationPage()],
    ['docs/cli.md', cliPage(root)],
    ['docs/api/daemon.md', operationsPage('Daemon API', DAEMON, daemonOperations)],
    ['docs/api/runtime.md', operationsPage('Runtime API', RUNTIME, runtimeOperations)],
  ]);
}
