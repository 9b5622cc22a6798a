import type { InputOf, Operation, OutputOf } from '../../src/contract/operation.ts';
import type { Handler, RequestContext } from '../../src/core/operation-call.ts';

export interface CallContext {
  readonly headers?: Readonly<Record<string, string>>;
  readonly client?: string;
  readonly signal?: AbortSignal;
}

/**
 * Call a handler as a server would: input validated by the operation, output checked against it.
 *
 * @throws ZodError for input the operation does not take or an answer it does not promise; whatever the handler throws
 */
export async function callHandler<Op extends Operation>(
  handlers: Readonly<Record<string, unknown>>,
  operation: Op,
  input: InputOf<Op>,
  { headers = {}, client = 'test', signal = new AbortController().signal }: CallContext = {},
): Promise<OutputOf<Op>> {
  const handler = handlers[operation.id] as Handler<Op>;
  const context: RequestContext = {
    requestId: 'req_test',
    client,
    signal,
    header: (name) => headers[name],
    reply: { status() {}, header() {} },
  };
  const parsed = operation.input.parse(input) as Parameters<typeof handler>[0];
  const answer = await handler(parsed, context);
  operation.output.parse(answer);
  return answer;
}
