import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { newId } from '../../src/core/clock.ts';

/** A runtime as its clients see it: the wire of the contract over real HTTP, with a model that answers by the words of the prompt. */
export interface FakeRuntime {
  readonly url: string;
  readonly port: number;
  /** `POST /session/ses_x/prompt {"content":"hi"}`, in the order of arrival. */
  readonly requests: { method: string; path: string; headers: Record<string, string>; body: Record<string, unknown> }[];
  readonly sessions: Map<string, FakeSession>;
  /** Append a signal to a session, as its machine would. */
  emit(id: string, name: string, payload: Record<string, unknown>): void;
  /** Cut every open stream without a last frame. */
  cutStreams(): void;
  close(): Promise<void>;
}

interface FakeSession {
  readonly id: string;
  readonly create: Record<string, unknown>;
  readonly signals: Record<string, unknown>[];
  readonly prompts: Map<string, Record<string, unknown>>;
  readonly readers: Set<ServerResponse>;
  running: string | null;
  ended: boolean;
  waiting: { id: string; promptId: string } | null;
}

const USAGE = { inputTokens: 11, outputTokens: 7 };
const NOW = '2026-01-02T03:04:05.678Z';

// long: one server and its state, read from top to bottom; every function in it is short
export async function openFakeRuntime({ port = 0, pid = process.pid, workspace = '/tmp/workspace' } = {}): Promise<FakeRuntime> {
  const sessions = new Map<string, FakeSession>();
  const requests: FakeRuntime['requests'] = [];
  const server = createServer(async (request, response) => {
    const url = new URL(request.url ?? '/', 'http://localhost');
    const body = await bodyOf(request);
    requests.push({ method: request.method ?? '', path: url.pathname, headers: request.headers as Record<string, string>, body });
    const handled = route(request.method ?? '', url, body, request, response);
    if (!handled) problem(response, 404, 'not_found', `no ${request.method} ${url.pathname}`);
  });
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, '127.0.0.1', resolve));
  const bound = (server.address() as AddressInfo).port;

  function route(method: string, url: URL, body: Record<string, unknown>, request: IncomingMessage, response: ServerResponse): boolean {
    const [root, id, part, sub] = url.pathname.split('/').slice(1);
    if (root === 'health') return json(response, 200, health(pid, sessions.size));
    if (root === 'info') return json(response, 200, info(workspace));
    if (root === 'tools') return json(response, 200, { tools: [TOOL], count: 1 });
    if (root === 'approvals') return json(response, 200, { items: [], count: 0 });
    if (root !== 'session') return false;
    if (!id)
      return method === 'POST'
        ? json(response, 201, view(create(body)))
        : json(response, 200, { items: [...sessions.values()].map(summary), next: null });
    const session = sessions.get(id);
    if (!session) return problem(response, 404, 'session_not_found', `no session ${id}`);
    if (!part && method === 'DELETE') return json(response, 200, end(session, url));
    if (!part) return json(response, 200, view(Object.assign(session, { create: { ...session.create, ...body } })));
    if (part === 'stream') return openStream(session, url, request, response);
    if (part === 'events')
      return json(response, 200, {
        items: after(session, Number(url.searchParams.get('after') ?? 0)),
        next: null,
        head: session.signals.length,
      });
    if (part === 'abort') return json(response, 200, abort(session));
    if (part === 'approvals') return json(response, 200, decide(session, sub ?? '', String(body.decision)));
    if (part === 'prompt' && sub) return json(response, 200, session.prompts.get(sub) ?? {});
    if (part === 'prompt') return prompt(session, url, body, response);
    return false;
  }

  function create(body: Record<string, unknown>): FakeSession {
    const id = String(body.id ?? newId('ses'));
    const session: FakeSession = {
      id,
      create: body,
      signals: [],
      prompts: new Map(),
      readers: new Set(),
      running: null,
      ended: false,
      waiting: null,
    };
    sessions.set(id, session);
    emit(id, 'session:created', { session: id });
    return session;
  }

  function emit(id: string, name: string, payload: Record<string, unknown>): void {
    const session = sessions.get(id)!;
    const seq = session.signals.length + 1;
    const signal = { v: 1, id: `sig_${'a'.repeat(20)}_${seq}`, seq, gseq: seq, stream: `session:${id}`, name, payload, timestamp: NOW };
    session.signals.push(signal);
    for (const reader of session.readers) reader.write(frame(name, signal, String(seq)));
  }

  /** @param offset  position behind the piece, in characters of all the call has said */
  function delta(session: FakeSession, content: string, offset: number): void {
    const data = { name: 'text:delta', payload: { content, index: 0, offset }, content };
    for (const reader of session.readers) reader.write(frame('text:delta', data, `${session.signals.length}.${offset}`));
  }

  function openStream(session: FakeSession, url: URL, request: IncomingMessage, response: ServerResponse): true {
    const cursor = Number.parseInt(String(request.headers['last-event-id'] ?? url.searchParams.get('after') ?? '0'), 10);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(`retry: 20\n\n${frame('session:snapshot', view(session))}`);
    for (const signal of after(session, cursor)) response.write(frame(String(signal.name), signal, String(signal.seq)));
    if (session.ended) {
      response.end(frame('end', { reason: 'ended' }));
      return true;
    }
    session.readers.add(response);
    response.on('close', () => session.readers.delete(response));
    return true;
  }

  function prompt(session: FakeSession, url: URL, body: Record<string, unknown>, response: ServerResponse): true {
    if (session.ended) return problem(response, 409, 'session_ended', `session ${session.id} has ended`);
    const promptId = String(body.id ?? body.promptId);
    const state = {
      id: promptId,
      status: 'running',
      position: null,
      turn: 1,
      seq: session.signals.length,
      endSeq: null,
      error: null,
      answer: null,
    };
    session.prompts.set(promptId, state);
    const finished = play(session, promptId, String(body.content));
    if (/^(1|true)$/.test(url.searchParams.get('async') ?? '')) return json(response, 202, answerOf(state));
    void finished.then(() => {
      const { error, answer } = session.prompts.get(promptId) as { error: { code: string; message: string } | null; answer: unknown };
      if (error) problem(response, 502, error.code, error.message);
      else json(response, 200, answer);
    });
    return true;
  }

  /** One turn. The words of the prompt choose what happens. */
  async function play(session: FakeSession, promptId: string, content: string): Promise<void> {
    const { id } = session;
    await new Promise(setImmediate); // The reply to the prompt goes first.
    session.running = promptId;
    emit(id, 'turn:start', { turn: 1, promptId, deadlineAt: NOW });
    emit(id, 'session:generating', {});
    if (content.includes('tool')) {
      emit(id, 'tool:call', {
        id: 'c1',
        name: 'memory_search',
        input: { query: 'tea' },
        key: 'k',
        class: 'pure',
        origin: 'builtin',
        phase: 'turn',
      });
      emit(id, 'tool:result', {
        id: 'c1',
        name: 'memory_search',
        key: 'k',
        output: { found: 2 },
        isError: false,
        durationMs: 12,
        bytes: 9,
      });
    }
    if (content.includes('fail')) return finish(session, promptId, '', { code: 'provider_failed', message: 'the model is on fire' });
    if (content.includes('slow')) return;
    if (content.includes('approve')) {
      session.waiting = { id: 'apr_1', promptId };
      return emit(id, 'tool:approval:requested', {
        id: 'apr_1',
        name: 'shell',
        input: { command: 'ls' },
        reason: 'policy',
        expiresAt: NOW,
      });
    }
    say(session, promptId, content.includes('evil') ? 'safe\u001b]0;owned\u0007 \u001b[31mred\u001b[0m' : `You said: ${content}`);
  }

  function say(session: FakeSession, promptId: string, text: string): void {
    emit(session.id, 'harness:start', { key: 'k', provider: 'demo', model: 'demo', round: 1, attempt: 1, purpose: 'answer' });
    const half = Math.floor(text.length / 2);
    delta(session, text.slice(0, half), half);
    delta(session, text.slice(half), text.length);
    emit(session.id, 'text:complete', { key: 'k', content: text });
    finish(session, promptId, text);
  }

  function finish(session: FakeSession, promptId: string, content: string, error?: { code: string; message: string }): void {
    session.running = null;
    const aborted = error?.code === 'aborted';
    const failure = aborted ? undefined : error;
    const status = aborted ? 'aborted' : failure ? 'failed' : 'completed';
    const stopReason = aborted ? 'aborted' : failure ? 'error' : 'end_turn';
    const state = session.prompts.get(promptId)!;
    session.prompts.set(promptId, {
      ...state,
      status,
      error: failure ?? null,
      answer: answerOf({ ...state, status, content, stopReason }),
    });
    const payload = {
      turn: 1,
      promptId,
      promptIds: [promptId],
      stopReason,
      rounds: 1,
      toolCalls: 0,
      usage: USAGE,
      costUsd: null,
      durationMs: 1_200,
    };
    emit(session.id, 'turn:end', { ...payload, ...(failure ? { error: failure } : {}) });
    emit(session.id, 'session:idle', {});
  }

  function abort(session: FakeSession): object {
    const promptId = session.running;
    if (promptId) finish(session, promptId, '', { code: 'aborted', message: 'aborted' });
    return { aborted: promptId !== null, cancelled: [], state: 'idle', seq: session.signals.length };
  }

  function decide(session: FakeSession, id: string, decision: string): object {
    emit(session.id, 'tool:approval:resolved', { id, decision, by: 'test' });
    if (session.waiting) say(session, session.waiting.promptId, `decided ${decision}`);
    session.waiting = null;
    return { id, decision, seq: session.signals.length };
  }

  function end(session: FakeSession, url: URL): object {
    session.ended = true;
    emit(session.id, 'session:ended', { reason: 'client', turns: 1, usage: USAGE, costUsd: null, durationMs: 5 });
    for (const reader of session.readers) reader.end(frame('end', { reason: 'ended' }));
    return { id: session.id, state: 'ended', purged: url.searchParams.get('purge') === 'true' };
  }

  return {
    url: `http://127.0.0.1:${bound}`,
    port: bound,
    requests,
    sessions,
    emit,
    cutStreams: () => {
      for (const { readers } of sessions.values()) for (const reader of readers) reader.destroy();
    },
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const TOOL = { name: 'memory_search', description: 'Search memories', inputSchema: {}, class: 'pure', origin: 'builtin' };

function view(session: FakeSession): Record<string, unknown> {
  const { id, create, ended, running, signals } = session;
  return {
    ...{ id, sessionKey: id, agent: create.agent ?? 'default', title: create.title ?? '', project: create.project ?? null, parentId: null },
    ...{ harness: create.harness ?? 'sdk', provider: create.provider ?? 'demo', model: create.model ?? 'demo-1', queue: [], turns: 1 },
    ...{ state: ended ? 'ended' : running ? 'generating' : 'idle', value: 'idle', turn: null, usage: USAGE, costUsd: null },
    ...{ context: { tokens: 100, limit: 1_000 }, bypassed: create.bypass === true, degraded: false, seq: signals.length, metadata: {} },
    ...{ createdAt: NOW, updatedAt: NOW, endReason: null },
  };
}

function summary(session: FakeSession): object {
  return { ...view(session), inputTokens: 11, outputTokens: 7 };
}

function answerOf(state: Record<string, unknown>): object {
  const { id, status, content = '', stopReason = null } = state;
  return { id, status, content, toolResults: [], usage: USAGE, costUsd: null, stopReason, seq: state.seq };
}

function health(pid: number, alive: number): object {
  const daemon = { url: 'http://127.0.0.1:3850', reachable: true };
  const load = { eventLoopDelayMs: { p50: 1, p99: 2 }, rssBytes: 1 };
  return {
    status: 'healthy',
    version: '9.9.9',
    pid,
    uptimeMs: 61_000,
    daemon,
    provider: 'demo',
    sessions: { alive, byState: { idle: alive } },
    ...load,
  };
}

function info(workspace: string): object {
  const provider = { id: 'demo', model: 'demo-1', origin: 'nothing else was configured', offlineDemo: true };
  const lists = { providers: ['demo'], tools: ['memory_search'], machines: [], limits: { drainTimeoutMs: 100 } };
  return {
    name: 'signet',
    version: '9.9.9',
    node: '24',
    startedAt: NOW,
    workspace,
    daemonUrl: 'http://127.0.0.1:3850',
    provider,
    ...lists,
  };
}

function after(session: FakeSession, cursor: number): Record<string, unknown>[] {
  return session.signals.filter(({ seq }) => Number(seq) > cursor);
}

function frame(event: string, data: unknown, id?: string): string {
  return `${id ? `id: ${id}\n` : ''}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}

function json(response: ServerResponse, status: number, body: unknown): true {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  return true;
}

function problem(response: ServerResponse, status: number, code: string, detail: string): true {
  response.writeHead(status, { 'content-type': 'application/problem+json' });
  response.end(JSON.stringify({ type: 'x', title: 'x', status, code, detail, error: detail }));
  return true;
}

async function bodyOf(request: IncomingMessage): Promise<Record<string, unknown>> {
  let text = '';
  for await (const chunk of request) text += chunk;
  return text === '' ? {} : (JSON.parse(text) as Record<string, unknown>);
}
