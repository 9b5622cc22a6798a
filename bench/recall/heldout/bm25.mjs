// Plain BM25 (k1 1.5, b 0.75): lower-case words, no stop words, no stemming. Ties: the newer (later) text first.
const words = (text) => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
export function bm25(texts, k1 = 1.5, b = 0.75) {
  const docs = texts.map((text) => {
    const counts = new Map();
    const list = words(text);
    for (const word of list) counts.set(word, (counts.get(word) ?? 0) + 1);
    return { counts, length: list.length };
  });
  const average = docs.reduce((sum, { length }) => sum + length, 0) / docs.length;
  const df = new Map();
  for (const { counts } of docs) for (const word of counts.keys()) df.set(word, (df.get(word) ?? 0) + 1);
  const idf = (n) => Math.log(1 + (docs.length - n + 0.5) / (n + 0.5));
  return (query) => {
    const asked = [...new Set(words(query))].filter((word) => df.has(word));
    return docs
      .map(({ counts, length }, index) => {
        let score = 0;
        for (const word of asked) {
          const tf = counts.get(word) ?? 0;
          if (tf) score += (idf(df.get(word)) * tf * (k1 + 1)) / (tf + k1 * (1 - b + (b * length) / average));
        }
        return { index, score };
      })
      .filter(({ score }) => score > 0)
      .sort((x, y) => y.score - x.score || y.index - x.index);
  };
}
export const option = (name, other) => (process.argv.includes(name) ? process.argv[process.argv.indexOf(name) + 1] : other);
export const poster = (base) => async (path, body) => {
  const response = await fetch(base.replace(/\/$/, '') + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${path} ${response.status} ${text.slice(0, 300)}`);
  return JSON.parse(text);
};
