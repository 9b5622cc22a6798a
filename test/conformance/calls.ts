/** What a server answered, as any client without our SDK sees it. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  /** Parsed JSON; the text itself when it is none. */
  // biome-ignore lint/suspicious/noExplicitAny: answers are looked at field by field, by tests alone.
  readonly body: any;
}

/** One plain HTTP call with a JSON body. */
export async function call(method: string, url: string, body?: unknown, headers: Readonly<Record<string, string>> = {}): Promise<Answer> {
  const response = await fetch(url, {
    method,
    headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  const isJson = /[/+]json/.test(response.headers.get('content-type') ?? '');
  return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text };
}

/** The hooks of one daemon by name: `hook('session-start', { harness: 'test' })` resolves to the body of a 200. */
export function hooksOf(daemonUrl: string) {
  return async (name: string, body: Readonly<Record<string, unknown>>, headers: Readonly<Record<string, string>> = {}) => {
    const answer = await call('POST', `${daemonUrl}/api/hooks/${name}`, { harness: 'test', ...body }, headers);
    if (answer.status !== 200) throw new Error(`${name} answered ${answer.status}: ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
}
