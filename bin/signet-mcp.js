#!/usr/bin/env node
// `signet mcp` under the name that harnesses are configured with.
process.argv.splice(2, 0, 'mcp');
await import('./signet.js');
