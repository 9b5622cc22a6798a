/** Environment variables the program reads. A test compares this list with the sources, both ways. */
export const ENVIRONMENT: readonly { readonly name: string; readonly value: string; readonly meaning: string }[] = [
  { name: 'SIGNET_PATH', value: '`~/.agents`', meaning: 'The workspace: the folder with agent.yaml, the identity files and all data' },
  { name: 'SIGNET_HOST', value: '`127.0.0.1`', meaning: 'Address the daemon binds to, and clients call' },
  {
    name: 'SIGNET_RUNTIME_HOST',
    value: 'loopback',
    meaning: 'Address the runtime binds to; `SIGNET_HOST` does not open it to other machines',
  },
  { name: 'SIGNET_ALLOW_INSECURE', value: '', meaning: '`1`: clients send tokens over plain HTTP to other machines too' },
  { name: 'SIGNET_PORT', value: '`3850`', meaning: 'Port of the daemon; 0 takes any free one' },
  { name: 'SIGNET_RUNTIME_PORT', value: '`7700`', meaning: 'Port of the runtime; 0 takes any free one' },
  {
    name: 'SIGNET_DAEMON_URL',
    value: '`http://<host>:<port>`',
    meaning: 'Where harness adapters, the role `runtime`, and commands such as `signet recall` find the daemon',
  },
  {
    name: 'SIGNET_ROLE',
    value: '`all`',
    meaning: '`runtime`: the runtime alone, beside a daemon elsewhere, see [operations](operations.md)',
  },
  { name: 'SIGNET_RUNTIME_URL', value: '`http://127.0.0.1:7700`', meaning: 'Where commands such as `signet chat` find the runtime' },
  { name: 'SIGNET_AGENT_ID', value: '', meaning: 'Agent that `signet-mcp` and `signet hook` speak for' },
  { name: 'SIGNET_HARNESS', value: '', meaning: 'Program that runs `signet-mcp`; author of the memories it stores' },
  { name: 'SIGNET_WORKSPACE', value: '', meaning: 'Project of the memories that are stored through `signet-mcp`' },
  { name: 'SIGNET_CHANNEL', value: '', meaning: 'Channel `signet-mcp` is used in; passed on to the daemon' },
  { name: 'SIGNET_AUTH_MODE', value: '`local`', meaning: '`local`, `team` or `hybrid`: who needs a token, see [auth](auth.md)' },
  { name: 'SIGNET_SOCKET', value: '`0`', meaning: '`1`: the servers also answer at Unix domain sockets, see [auth](auth.md)' },
  {
    name: 'SIGNET_TOKEN',
    value: "the daemon's own, on its machine",
    meaning: 'Token the commands send, see [auth](auth.md)',
  },
  { name: 'SIGNET_PROVIDER', value: 'see below', meaning: 'Provider that answers when a session names none' },
  { name: 'SIGNET_MODEL', value: "the provider's own", meaning: 'Model of that provider' },
  {
    name: 'SIGNET_BYPASS',
    value: '',
    meaning: '`1`: `signet chat` begins its session with the hooks silent, and `signet hook` does nothing',
  },
  { name: 'SIGNET_NO_HOOKS', value: '', meaning: '`1`: `signet hook` does nothing' },
  {
    name: 'SIGNET_PROMPT_SUBMIT_TIMEOUT',
    value: '`5000`',
    meaning: 'Longest wait of `signet hook user-prompt-submit` for the daemon, in ms, from 100 to 120000',
  },
  {
    name: 'SIGNET_RUNTIME_PATH',
    value: '',
    meaning: '`plugin` or `legacy`: the path `signet hook` calls by, see [memory](memory.md#hooks)',
  },
  { name: 'SIGNET_LOG_LEVEL', value: '`info`', meaning: '`fatal`, `error`, `warn`, `info`, `debug`, `trace` or `silent`' },
  {
    name: 'SIGNET_CHILD_OF',
    value: '',
    meaning: 'Set by Signet for the MCP servers it starts, so that the next start finds those a killed daemon left behind',
  },
  { name: 'SIGNALS_MODE', value: '`live`', meaning: '`live`, `record`, `replay` or `auto`, see [recording](recording.md)' },
  { name: 'SIGNALS_RECORDING', value: '', meaning: 'File that is recorded to or replayed from; every mode but `live` needs one' },
  {
    name: 'ANTHROPIC_API_KEY',
    value: '',
    meaning: 'Key of the Anthropic API; with it the provider `anthropic` is there without any configuration',
  },
  { name: 'ANTHROPIC_BASE_URL', value: "the provider's own", meaning: 'Other address of the Anthropic API' },
  { name: 'OPENAI_API_KEY', value: '', meaning: 'Key of the OpenAI API; with it the provider `openai` is there without any configuration' },
  { name: 'OPENAI_BASE_URL', value: "the provider's own", meaning: 'Other address of the OpenAI API, for servers that speak its protocol' },
  { name: 'OTEL_EXPORTER_OTLP_ENDPOINT', value: '', meaning: 'OpenTelemetry collector; `/v1/traces` is added' },
  { name: 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', value: '', meaning: 'The same, taken as it is' },
  { name: 'OTEL_SERVICE_NAME', value: '`signet`', meaning: '`service.name` of the spans' },
  { name: 'OTEL_SDK_DISABLED', value: '', meaning: '`true`: no spans, whatever else says so' },
];

/** Names of variables that a source text mentions, comments left out by the caller. Constants of that name are none. */
export function environmentNames(code: string): string[] {
  const constants = new Set([...code.matchAll(/\bconst\s+([A-Z][A-Z0-9_]+)\b/g)].map((match) => match[1]!));
  const names = [...code.matchAll(/\b(?:SIGNET|SIGNALS|ANTHROPIC|OPENAI|OTEL)_[A-Z0-9_]*[A-Z0-9]\b/g)].map((match) => match[0]);
  for (const [, list = ''] of code.matchAll(/\bimport\s[^;{]*\{([^}]*)\}/g)) for (const name of list.split(/\W+/)) constants.add(name);
  return [...new Set(names)].filter((name) => !constants.has(name)).sort();
}
