// node assistant.mjs --base-url http://127.0.0.1:48501 [--data assistant.json] [-v]     an empty workspace, please
import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bm25, option, poster } from './bm25.mjs';

const post = poster(option('--base-url', 'http://127.0.0.1:3850'));
const here = dirname(fileURLToPath(import.meta.url));
const set = JSON.parse(readFileSync(resolve(option('--data', `${here}/assistant.json`)), 'utf8'));
const harness = 'heldout',
  project = '/heldout/assistant';
const textOf = ({ who, text }) => `${who}: ${text}`;
const idOf = new Map();
for (const m of set.messages) {
  const answer = await post('/api/hooks/remember', {
    harness,
    content: textOf(m),
    who: m.who,
    sessionKey: `chat:${m.session}`,
    project,
    createdAt: m.created_at,
    idempotencyKey: m.id,
  });
  idOf.set(String(answer.id ?? answer.memoryId), m.id);
}
const search = bm25(set.messages.map(textOf));
const measure = (ranked, evidence) => {
  const wanted = new Set(evidence),
    gain = (i) => 1 / Math.log2(i + 2);
  const found = (k) => ranked.slice(0, k).filter((id) => wanted.has(id)).length / wanted.size;
  const dcg = ranked.slice(0, 10).reduce((sum, id, i) => sum + (wanted.has(id) ? gain(i) : 0), 0);
  const ideal = evidence.slice(0, 10).reduce((sum, _, i) => sum + gain(i), 0);
  return { 'R@5': found(5), 'R@10': found(10), 'nDCG@10': dcg / ideal };
};
const rows = [];
for (const q of set.questions) {
  const { results } = await post('/api/memory/recall', { harness, query: q.question, limit: 10, project });
  const signet = results.map(({ id, memoryId }) => idOf.get(String(id ?? memoryId)) ?? `foreign ${id}`);
  const plain = search(q.question)
    .slice(0, 10)
    .map(({ index }) => set.messages[index].id);
  rows.push({ q, signet: measure(signet, q.evidence), plain: measure(plain, q.evidence) });
}
const show = (name, list) => {
  for (const key of ['R@5', 'R@10', 'nDCG@10']) {
    const mean = (side) => ((100 * list.reduce((sum, row) => sum + row[side][key], 0)) / list.length).toFixed(1);
    console.log(`${name} (${list.length})`.padEnd(28), key.padEnd(8), mean('signet').padStart(8), mean('plain').padStart(8));
  }
};
console.log(`${idOf.size}/${set.messages.length} messages stored`);
console.log(''.padEnd(37), 'signet'.padStart(8), 'bm25'.padStart(8));
show('all', rows);
for (const kind of [...new Set(set.questions.map(({ kind }) => kind))])
  show(
    kind,
    rows.filter(({ q }) => q.kind === kind),
  );
if (process.argv.includes('-v'))
  for (const { q, signet, plain } of rows)
    if (signet['R@10'] < 1 || signet['nDCG@10'] < plain['nDCG@10'] - 1e-9) console.log('  ', q.question, JSON.stringify({ signet, plain }));
