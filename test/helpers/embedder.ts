import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

/** What the next requests meet; `ok` unless said otherwise. */
export type EmbedderMood = 'ok' | 'down' | 'slow' | 'short' | 'nonsense' | 'refusing' | 'flat' | 'endless';

export interface TestEmbedder {
  /** OpenAI-compatible, `/v1` included; Ollama's own API stands beside it, without `/v1`. */
  readonly url: string;
  readonly texts: string[];
  /** The `authorization` of each request. */
  readonly keys: (string | undefined)[];
  mood: EmbedderMood;
}

/** Words of one meaning have one direction. */
const DIRECTIONS: readonly (readonly string[])[] = [
  ['tea', 'oolong', 'matcha', 'beverage', 'brew'],
  ['car', 'automobile', 'vehicle', 'sedan'],
  ['money', 'budget', 'salary', 'cash'],
];
const DIMENSIONS = DIRECTIONS.length + 1;
/** What each text is said to have. */
export const EMBEDDING_TOKENS = 7;
const SLOW_MS = 60_000;

/** A real HTTP server that turns words of one meaning into vectors of one direction; gone when the test is over. */
export async function startEmbedder(): Promise<TestEmbedder> {
  const state: { mood: EmbedderMood; texts: string[]; keys: (string | undefined)[] } = { mood: 'ok', texts: [], keys: [] };
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += String(chunk);
    const texts = (JSON.parse(body) as { input: string[] }).input;
    state.texts.push(...texts);
    state.keys.push(request.headers.authorization);
    const isOllama = request.url === '/api/embed';
    answer(response, state.mood, texts, (vectors) =>
      isOllama
        ? { embeddings: vectors, prompt_eval_count: EMBEDDING_TOKENS * texts.length }
        : { data: vectors.map((embedding, index) => ({ index, embedding })), usage: { prompt_tokens: EMBEDDING_TOKENS * texts.length } },
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  return {
    url,
    texts: state.texts,
    keys: state.keys,
    get mood() {
      return state.mood;
    },
    set mood(mood) {
      state.mood = mood;
    },
  };
}

function answer(response: ServerResponse, mood: EmbedderMood, texts: readonly string[], wrap: (vectors: number[][]) => object): void {
  const isRefused = mood === 'refusing' && texts.some((text) => text.includes('poison'));
  if (mood === 'down') response.destroy();
  else if (mood === 'slow') setTimeout(() => response.destroy(), SLOW_MS).unref();
  else if (mood === 'nonsense') response.end('<html>hello</html>');
  else if (isRefused) response.writeHead(400).end('this text cannot be read');
  else if (mood === 'flat') response.end(JSON.stringify(wrap(texts.map(() => Array<number>(DIMENSIONS).fill(0)))));
  else if (mood === 'endless') response.end(JSON.stringify(wrap(texts.map(() => Array<number>(DIMENSIONS).fill(Number.MAX_VALUE)))));
  else response.end(JSON.stringify(wrap(texts.map((text) => vectorOf(text).slice(0, mood === 'short' ? 2 : DIMENSIONS)))));
}

function vectorOf(text: string): number[] {
  const words = text.toLowerCase().match(/[a-z]+/g) ?? [];
  return [...DIRECTIONS.map((direction) => words.filter((word) => direction.includes(word)).length), 0.01];
}
