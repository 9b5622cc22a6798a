import { open, tested } from './requirements.row.ts';

/** Promises of spec/mcp-server about transports, discovery, authentication and errors. */
export const MCP_SERVER_REQUIREMENTS = {
  Overview: {
    'mcp.beside-hooks': tested('Hooks and MCP tools can serve the same session at the same time'),
  },
  'Discovery Protocol': {
    'cli.install.registers-mcp': open('signet install registers the MCP server in the configuration of each harness'),
    'cli.daemon.start': tested('signet daemon start starts the daemon'),
    'mcp.http.address': tested('The MCP server answers at http://localhost:3850/mcp by default'),
    'mcp.env.signet-port': tested('SIGNET_PORT changes the port of the daemon; default 3850'),
    'mcp.env.signet-host': tested('SIGNET_HOST changes the host of the daemon; default localhost'),
    'mcp.initialize': tested('initialize with protocol version 2025-03-26 is answered with the server capabilities'),
  },
  'Transports: Streamable HTTP': {
    'mcp.http.post': tested('POST /mcp takes MCP messages'),
    'mcp.http.get': tested('GET /mcp opens an event stream for server notifications'),
    'mcp.http.delete': tested('DELETE /mcp is accepted and changes nothing'),
    'mcp.http.stateless': tested('Each MCP request over HTTP is served without a session of an earlier request'),
  },
  'Transports: stdio': {
    'mcp.stdio.json-rpc': tested('signet-mcp reads JSON-RPC from stdin and writes only JSON-RPC to stdout'),
    'mcp.stdio.initialize': tested('An initialize message piped into signet-mcp is answered'),
    'mcp.stdio.daemon-required': tested('A tool called through signet-mcp fails as a tool error while the daemon is down'),
    'mcp.stdio.env.daemon-url': tested('SIGNET_DAEMON_URL points signet-mcp at another daemon'),
    'mcp.stdio.env.host': tested('SIGNET_HOST points signet-mcp at another host'),
    'mcp.stdio.env.port': tested('SIGNET_PORT points signet-mcp at another port'),
  },
  'Configuration per Harness': {
    'connectors.claude-code.mcp': open('signet install adds a stdio server named signet to ~/.claude/settings.json'),
    'connectors.opencode.mcp': open('signet install adds an enabled local server to ~/.config/opencode/opencode.json'),
    'connectors.opencode.mcp.coexists': open('The OpenCode plugin and the MCP server are installed side by side'),
    'connectors.openclaw.tools': open('The OpenClaw plugin offers the same tools as the MCP server'),
  },
  'Manual Setup': {
    'mcp.manual-setup': tested('A harness that is configured by hand to run signet-mcp gets all tools'),
  },
  Authentication: {
    'auth.local': tested('In local mode requests need no authentication'),
    'auth.team': tested('In team mode an HTTP request without a valid Bearer token is refused'),
    'auth.team.stdio': tested('In team mode signet-mcp reaches the daemon with its own credentials'),
    'auth.hybrid.local': tested('In hybrid mode requests from localhost need no token'),
    'auth.hybrid.remote': tested('In hybrid mode requests from elsewhere need a token'),
  },
  Internals: {
    'mcp.header.runtime-path': tested('Tool calls reach the daemon with x-signet-runtime-path: plugin'),
    'mcp.header.actor': tested('Tool calls reach the daemon with x-signet-actor: mcp-server'),
    'mcp.header.actor-type': tested('Tool calls reach the daemon with x-signet-actor-type: harness'),
    'mcp.timeout': tested('A tool call other than secret_exec is given up after 10 seconds'),
    'mcp.error': tested('A failed tool call is a result with isError: true and a readable message'),
  },
} as const;
