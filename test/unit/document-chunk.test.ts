import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { CHUNK_CHARS, cutDocument } from '../../src/core/document-chunk.ts';

const words = (count: number, word = 'lorem') => Array.from({ length: count }, (_, index) => `${word}${index}`).join(' ');
const bodies = (chunks: readonly string[]) => chunks.map((chunk) => chunk.slice(chunk.indexOf('\n') + 1));

describe('a Markdown document', () => {
  test('is cut at its headings, and each piece says under which it stands', () => {
    const text = '# Tea\n\nAll about it.\n\n## Green\nFrom Uji.\n\n### Matcha\nA powder.\n\n## Black\nFrom Assam.\n';
    expect(cutDocument(text, 'markdown')).toEqual({
      title: 'Tea',
      chunks: ['Tea\nAll about it.', 'Tea › Green\nFrom Uji.', 'Tea › Green › Matcha\nA powder.', 'Tea › Black\nFrom Assam.'],
    });
  });

  test('keeps what stands before its first heading, and takes a title in place of it', () => {
    expect(cutDocument('Before.\n# One\nText.', 'markdown').chunks).toEqual(['One\nBefore.', 'One\nText.']);
    expect(cutDocument('# One\nText.', 'markdown', 'Book')).toEqual({ title: 'Book', chunks: ['Book › One\nText.'] });
  });

  test('has no headings inside code', () => {
    const text = '# Shell\n```sh\n# a comment\n~~~\nls\n```\n# After\nText.';
    expect(cutDocument(text, 'markdown').chunks).toEqual(['Shell\n```sh\n# a comment\n~~~\nls\n```', 'Shell › After\nText.']);
  });

  test('reads line ends of every system, and headings without space after them', () => {
    expect(cutDocument('# A ##\r\nOne.\r\r\nTwo.', 'markdown')).toEqual({ title: 'A', chunks: ['A\nOne.\n\nTwo.'] });
    expect(cutDocument('#NoHeading\n\nText.', 'markdown')).toEqual({ title: null, chunks: ['#NoHeading\n\nText.'] });
  });

  test('has headings with `#` and spaces at their ends, and none without a name', () => {
    const title = (line: string) => cutDocument(`${line}\nText.`, 'markdown').title;
    expect(['# a', '##\t a \t', '# a # #', '# a##  ', '# ##', '####### a', '#', '#  '].map(title)).toEqual([
      'a',
      'a',
      'a #',
      'a',
      '#',
      null,
      null,
      null,
    ]);
  });

  test('has a heading that is mostly spaces read in one pass', () => {
    const gap = ' '.repeat(500_000);
    const { title } = cutDocument(`# a${gap}x${gap}##${gap}\nText.`, 'markdown');
    expect(title).toBe(`a${' '.repeat(199)}`);
  });
});

describe('a long text', () => {
  test('is cut between paragraphs first, and pieces are filled', () => {
    const paragraph = words(60);
    const { chunks } = cutDocument([paragraph, paragraph, paragraph, paragraph].join('\n\n'), 'text');
    expect(chunks).toEqual([`${paragraph}\n\n${paragraph}`, `${paragraph}\n\n${paragraph}`]);
  });

  test('of one paragraph is cut between sentences, and without any between words', () => {
    const sentence = `${words(100)}.`;
    expect(cutDocument(`${sentence} ${sentence} ${sentence}`, 'text').chunks).toEqual([sentence, sentence, sentence]);
    for (const chunk of cutDocument(words(500), 'text').chunks) expect(chunk).toMatch(/^lorem\d+ .* lorem\d+$/);
  });

  test('without any space is cut anywhere but within a character', () => {
    const { chunks } = cutDocument('🦊'.repeat(CHUNK_CHARS), 'text');
    expect(chunks.join('')).toBe('🦊'.repeat(CHUNK_CHARS));
    for (const chunk of chunks) expect(chunk).not.toMatch(/\ufffd|[\ud800-\udbff]$/);
  });
});

test('nothing but white space gives no pieces', () => {
  expect(cutDocument(' \n\n\t\n', 'text')).toEqual({ title: null, chunks: [] });
  expect(cutDocument('# Only\n## Headings\n', 'markdown').chunks).toEqual([]);
});

test('whatever the text: no piece is empty or too long, and no word is lost or made up', () => {
  const part = fc.oneof(
    fc.constantFrom('\n', '\n\n', ' ', '# ', '## ', '```\n', '.', '! '),
    fc.string({ maxLength: 40 }),
    fc.integer({ min: 1, max: 400 }).map((n) => words(n, 'w')),
  );
  fc.assert(
    fc.property(fc.array(part, { maxLength: 30 }), (parts) => {
      const text = parts.join('').replaceAll('\r', '');
      const { chunks } = cutDocument(text, 'text');
      for (const chunk of chunks) expect(chunk.trim().length > 0 && chunk.length <= CHUNK_CHARS).toBe(true);
      expect(chunks.join('').replace(/\s/g, '')).toBe(text.replace(/\s/g, ''));
      const marked = bodies(cutDocument(text, 'markdown', 'T').chunks)
        .join('')
        .replace(/\s/g, '');
      expect(marked.length).toBeLessThanOrEqual(text.replace(/\s/g, '').length);
    }),
    { numRuns: 200 },
  );
});
