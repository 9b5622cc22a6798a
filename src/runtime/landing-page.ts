import type { RawRoute } from '../http/server.ts';

const PAGE = (version: string) => `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Signet</title>
<h1>Signet ${version}</h1>
<p>This is the runtime. Programs talk to it:</p>
<ul>
<li><a href="/openapi.json">/openapi.json</a> describes every operation</li>
<li><a href="/session">/session</a> lists the sessions</li>
<li><a href="/machines/session/mermaid">/machines/session/mermaid</a> is the statechart each session runs</li>
<li><a href="/health">/health</a> and <a href="/info">/info</a></li>
</ul>
<p>People talk to agents with <code>signet chat</code>.</p>
</html>
`;

/** GET / for a person who opens the printed address in a browser. */
export function landingPage(version: string): RawRoute {
  const page = PAGE(version);
  return {
    methods: ['GET'],
    path: '/',
    role: 'readonly',
    isPublic: true,
    handle(_request, response) {
      response.writeHead(200, {
        'content-type': 'text/html; charset=utf-8',
        'cache-control': 'no-cache',
        'content-security-policy': "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
      });
      response.end(page);
    },
  };
}
