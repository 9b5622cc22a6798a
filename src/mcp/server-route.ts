import type { RawRoute } from '../http/server.ts';
import type { McpServerDeps } from './server.ts';
import type { McpHttp } from './server-http.ts';

/** Longest body of a POST: a document of the longest kind; unit: bytes. */
export const MCP_BODY_BYTES_MAX = 4 * 1_048_576;

/** `/mcp`. The SDK is loaded at the first request, so that a daemon nobody asks for it starts without. */
export function createMcpRoute(deps: McpServerDeps): RawRoute {
  let loading: Promise<McpHttp> | undefined;
  const load = (): Promise<McpHttp> => {
    loading ??= import('./server-http.ts').then(({ createMcpHttp }) => createMcpHttp(deps));
    return loading;
  };
  return {
    methods: ['GET', 'POST', 'DELETE'],
    path: '/mcp',
    role: 'readonly',
    bodyBytesMax: MCP_BODY_BYTES_MAX,
    async handle(request, response, body, rights) {
      // There is no session that could end.
      if (request.method === 'DELETE') return void response.writeHead(200).end();
      const http = await load();
      if (request.method === 'GET') http.get(request, response, rights);
      else await http.post(request, response, body, rights);
    },
  };
}
