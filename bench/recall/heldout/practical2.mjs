// node practical2.mjs --base-url http://127.0.0.1:48500 [--data practical2.json] [-v]     an empty workspace, please
// Signet beside plain BM25 over the same memories. BM25's "inject" is its five best memories, whole, as lines; its follow-up asks with prompt + last answer.
import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bm25, option, poster } from './bm25.mjs';

const post = poster(option('--base-url', 'http://127.0.0.1:3850'));
const here = dirname(fileURLToPath(import.meta.url));
const set = JSON.parse(readFileSync(resolve(option('--data', `${here}/practical2.json`)), 'utf8'));
const who = option('--who', 'ines'),
  harness = 'heldout';
for (const { date, project, content } of set.memories)
  await post('/api/hooks/remember', {
    harness,
    who,
    content,
    createdAt: `${date}T10:00:00.000Z`,
    sessionKey: `kept-${date}`,
    ...(project ? { project } : {}),
  });

const search = bm25(set.memories.map(({ content }) => content));
const plain = (text) =>
  search(text)
    .slice(0, 5)
    .map(({ index }) => set.memories[index].content);
const asLines = (list) => list.map((content) => `- ${content}`).join('\n');
const clean = (text) => (text ?? '').replaceAll('**', '');
const fresh = () => ({ top1: 0, top5: 0, inject: 0, shown: 0, before: 0, alone: 0, again: 0, quiet: 0, follow: 0, chars: 0 });
const signet = fresh(),
  words = fresh(),
  of = { answer: 0, stale: 0, negative: 0 },
  notes = [];

const judge = (tally, q, inject, results) => {
  tally.chars += inject.length;
  if (q.negative) {
    tally.quiet += /^- /m.test(inject) ? 0 : 1;
    return;
  }
  const answer = new RegExp(q.answer),
    at = inject.search(answer);
  tally.top1 += answer.test(results[0] ?? '');
  tally.top5 += results.some((content) => answer.test(content));
  tally.inject += at >= 0;
  if (!q.stale) return;
  const old = inject.search(new RegExp(q.stale));
  tally.shown += old >= 0;
  tally.before += old >= 0 && (at < 0 || old < at);
  tally.alone += old >= 0 && at < 0;
};
for (const [index, q] of set.questions.entries()) {
  if (q.negative) of.negative++;
  else {
    of.answer++;
    if (q.stale) of.stale++;
  }
  const ask = async () =>
    clean(
      (
        await post('/api/hooks/user-prompt-submit', {
          harness,
          prompt: q.prompt,
          userMessage: q.prompt,
          sessionKey: `live-${index}`,
          project: q.project,
        })
      ).inject,
    );
  const inject = await ask();
  const results = q.negative ? [] : (await post('/api/memory/recall', { query: q.prompt, limit: 5 })).results.map(({ content }) => content);
  judge(signet, q, inject, results);
  const five = plain(q.prompt);
  judge(words, q, asLines(five), five);
  if (q.stale) {
    const again = await ask();
    signet.again += new RegExp(q.stale).test(again) && !new RegExp(q.answer).test(again);
  }
  if (q.negative ? /^- /m.test(inject) : !new RegExp(q.answer).test(inject))
    notes.push(`${q.negative ? 'not quiet' : 'missed'}: ${q.prompt}`);
}
for (const [index, f] of set.followUps.entries()) {
  const { inject } = await post('/api/hooks/user-prompt-submit', {
    harness,
    prompt: f.prompt,
    userMessage: f.prompt,
    lastAssistantMessage: f.after,
    sessionKey: `follow-${index}`,
    project: set.start.project,
  });
  signet.follow += new RegExp(f.answer).test(clean(inject));
  words.follow += new RegExp(f.answer).test(asLines(plain(`${f.prompt} ${f.after}`)));
}
const start = clean((await post('/api/hooks/session-start', { harness, sessionKey: 'start', project: set.start.project })).inject);
const rules = set.start.mustShow.filter((text) => new RegExp(text).test(start)).length;
const line = (name, key, total) =>
  console.log(
    name.padEnd(34),
    `${signet[key]}${total ? `/${total}` : ''}`.padStart(8),
    `${words[key]}${total ? `/${total}` : ''}`.padStart(8),
  );
console.log(''.padEnd(34), 'signet'.padStart(8), 'bm25'.padStart(8));
line('answer in top 1', 'top1', of.answer);
line('answer in top 5', 'top5', of.answer);
line('answer in inject (bm25: top 5)', 'inject', of.answer);
line('stale shown', 'shown', of.stale);
line('stale before fresh (or alone)', 'before', of.stale);
line('stale alone', 'alone', of.stale);
console.log('stale alone when asked again'.padEnd(34), `${signet.again}/${of.stale}`.padStart(8), '-'.padStart(8));
line('negatives left quiet', 'quiet', of.negative);
line('follow-ups', 'follow', set.followUps.length);
for (const tally of [signet, words]) tally.chars = Math.round(tally.chars / set.questions.length);
line('average inject, characters', 'chars');
console.log(
  'standing rules in session-start'.padEnd(34),
  `${rules}/${set.start.mustShow.length}`.padStart(8),
  '-'.padStart(8),
  `  (${start.length} characters)`,
);
if (process.argv.includes('-v')) for (const note of notes) console.log('  ', note);
