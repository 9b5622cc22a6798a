import { SIGNALS } from '../../src/contract/catalog.ts';
import { ERRORS } from '../../src/contract/errors.ts';
import { toJsonSchema } from '../../src/contract/json-schema.ts';
import { type SignalKind, SignalKind as SignalKinds } from '../../src/contract/signal.ts';
import { STATE_CHANGED, WORKFLOW_SIGNALS } from '../../src/contract/workflow-signals.ts';
import { code, page, table } from './markdown.ts';
import { fieldsOf, typeText } from './schema-text.ts';

const KIND_TEXT: Readonly<Record<SignalKind, string>> = {
  input: 'came from outside and moves the state machine',
  machine: 'derived by the machine',
  effect: 'work the machine asked for',
  stream: 'live only, never stored',
  system: "the supervisor's and the log's own",
};

/** docs/errors.md */
export function errorsPage(): string {
  const rows = Object.entries(ERRORS).map(([name, { status, title, retryable }]) => [
    `<a id="${name}"></a>${code(name)}`,
    String(status),
    title,
    retryable ? 'yes' : 'no',
  ]);
  return page('Errors', [
    [
      'Every failure is answered as `application/problem+json` (RFC 9457): `type`, `title`, `status` and `detail`, and besides `code`, one of the',
      'stable names below. `error` repeats `detail` for clients that read only that field. `errors` lists single fields with a JSON pointer,',
      '`retryAfterMs` (and the header `Retry-After`) say how long to wait, `requestId` finds the request in the log.',
      '"Retry" says whether the same request can succeed later without a change.',
    ].join('\n'),
    table(['Code', 'Status', 'Meaning', 'Retry'], rows),
  ]);
}

/** docs/signals.md */
export function signalsPage(): string {
  const signals = Object.entries({ ...SIGNALS, ...WORKFLOW_SIGNALS, 'state:<key>:changed': STATE_CHANGED });
  const kinds = SignalKinds.options.map((kind) => `- **${kind}**: ${KIND_TEXT[kind]}`).join('\n');
  const overview = signals.map(([name, { kind, description }]) => [`[${code(name)}](#${anchor(name)})`, kind, description]);
  const details = signals.map(([name, { kind, description, payload }]) => {
    const fields = fieldsOf(toJsonSchema(payload, 'output'));
    const rows = fields.map((field) => [code(field.name), code(typeText(field.schema)), field.required ? 'yes' : '']);
    return [
      `### ${name}`,
      `${description} (${kind})`,
      rows.length > 0 ? table(['Field', 'Type', 'Always there'], rows) : 'No payload.',
    ].join('\n\n');
  });
  return page('Signals', [
    [
      'A signal is one recorded fact. The log of a session is its truth: what clients see, what a restart continues and what the model is given',
      'are all folded from signals. `seq` is dense within a stream, `gseq` runs over all streams, `source.parent` names the signal that caused it.',
    ].join('\n'),
    kinds,
    table(['Name', 'Kind', 'What happened'], overview),
    '## What is not a signal of its own',
    table(['Fact', 'Where it stands'], ELSEWHERE),
    '## Payloads',
    ...details,
  ]);
}

/** Facts that a reader may look for in vain among the names. */
const ELSEWHERE = [
  [
    'A client begins or ends to read, or falls behind',
    'nothing is written for a reader; `lagged` and `caught_up` in its stream, `signet_readers_lagging` in `/metrics`',
  ],
  ['Another harness claims a session or lets go of it', 'the registry of sessions of the daemon'],
  ['Memories were recalled', '`memoryIds` of `hook:end`; by a tool, `tool:result`'],
  ['A memory was stored, changed, forgotten or rated', 'its history in the daemon; by a tool, `tool:result`'],
  ['A source of the research phase answered', '`hook:end` and `tool:result`; `research:end` counts them'],
  ['A wait was given up', 'the `session:transition` that leaves the state it belonged to'],
  ['A budget is nearly used up', '`usage` and `costUsd` of the workflow; `budget:exceeded` says when it is'],
  ['The roster changed', '`config:changed` with the key `agents`'],
  ['A log was folded to a checkpoint', '`log:pruned`'],
  ['A log is not what the machine would have written', 'the answer of `GET /session/:id/verify`: looking writes nothing'],
];

/** As GitHub makes it of a heading. */
function anchor(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');
}
