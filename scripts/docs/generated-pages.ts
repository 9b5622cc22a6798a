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

/** Path from the repository's root to the text of every generated page. */
export async function generatedPages(root: string): Promise<Map<string, string>> {
  return new Map([
    ['docs/errors.md', errorsPage()],
    ['docs/signals.md', signalsPage()],
    ['docs/machines.md', await machinesPage(root)],
    ['docs/configuration.md', configurationPage()],
    ['docs/api/daemon.md', operationsPage('Daemon API', DAEMON, daemonOperations)],
    ['docs/api/runtime.md', operationsPage('Runtime API', RUNTIME, runtimeOperations)],
  ]);
}
