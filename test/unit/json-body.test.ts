import { describe, expect, test } from 'vitest';
import { JSON_DEPTH_MAX, parseJsonBody } from '../../src/http/json-body.ts';

const MIB = 1_048_576;
const parse = async (text: string | Buffer, bounds = {}) => parseJsonBody(Buffer.isBuffer(text) ? text : Buffer.from(text), bounds);
const refusal = async (text: string | Buffer, bounds = {}): Promise<{ code: string; detail: string }> =>
  parse(text, bounds).then(
    () => expect.unreachable('it was taken'),
    (error) => error as { code: string; detail: string },
  );
/** A body of some MiB whose list `items` is parsed in pieces. */
const long = (items: readonly unknown[], more: object = {}) => ({ before: [1, { a: '"]}' }], ...more, items, after: { b: ['[', ','] } });
const filler = 'é"\\ [{,}] '.repeat(2_000);

describe('a large body', () => {
  test('that is parsed in pieces is what JSON.parse makes of it', async () => {
    const items = Array.from(
      { length: 200 },
      (_, at) => [{ at, text: filler, list: [at, [at]], empty: [], no: null }, `${at}`, at, true][at % 4],
    );
    const body = long(items, { other: [filler, filler] });
    for (const text of [JSON.stringify(body), JSON.stringify(body, null, 1)]) {
      expect(text.length).toBeGreaterThan(MIB);
      expect(await parse(text)).toEqual(body);
    }
  });

  test('lets others run while it is parsed', async () => {
    const parsing = parse(JSON.stringify(long(Array.from({ length: 400 }, () => filler))));
    let turns = 0;
    let done = false;
    void parsing.then(() => (done = true));
    while (!done) {
      await new Promise((resolve) => setImmediate(resolve));
      turns += 1;
    }
    expect(turns).toBeGreaterThan(10);
  });

  test.each([
    ['ends too early', (text: string) => text.slice(0, -100)],
    ['has a comma too many at the end of the list', (text: string) => text.replace('],"after"', ',],"after"')],
    ['has a comma too many in the list', (text: string) => text.replace('","', '",,"')],
    ['closes the list with a brace', (text: string) => text.replace('],"after"', '},"after"')],
    ['has a word in the list', (text: string) => text.replace('","', '",nope,"')],
    ['has more behind its end', (text: string) => `${text} x`],
    ['has a broken rest', (text: string) => text.replace('"after":', '"after"')],
  ])('that %s is refused', async (_name, damage) => {
    const text = JSON.stringify(long(Array.from({ length: 100 }, () => filler)));
    expect(() => JSON.parse(damage(text))).toThrow();
    expect(await refusal(damage(text))).toMatchObject({ code: 'invalid_json' });
  });

  test('with half a character or a poisoned key deep in its list is refused by its place', async () => {
    const with_ = (item: string) => JSON.stringify(long([...Array.from({ length: 100 }, () => filler), '@', filler])).replace('"@"', item);
    expect((await refusal(with_('"\\ud83d"'))).detail).toMatch(/^\/items\/\d+ holds half of a surrogate pair/);
    expect(await parse(with_('"\\ud83d"'), { halves: 'replace' })).toMatchObject({ after: { b: ['[', ','] } });
    expect((await refusal(with_('{"__proto__":1}'))).detail).toContain('__proto__');
  });
});

describe('what is counted before anything is parsed', () => {
  test('values beyond the limit are refused with the place, in every form they have', async () => {
    const values = 20_001;
    for (const text of [
      `[${'[],'.repeat(values).slice(0, -1)}]`,
      `{"x":[${'1,'.repeat(values).slice(0, -1)}]}`,
      `{${Array.from({ length: values }, (_, at) => `"k${at}":1`).join()}}`,
      `{"x":[${'1,'.repeat(values)}`,
    ]) {
      expect(await refusal(text)).toMatchObject({
        code: 'payload_too_large',
        detail: expect.stringMatching(/^the body has more than 20000 values, the next one at position \d+; send it in several requests$/),
      });
    }
    expect(await parse(`[${'1,'.repeat(19_000)}1]`)).toHaveLength(19_001);
    expect(await parse(`{"x":[${'1,'.repeat(30_000)}1]}`, { valuesMax: 40_000 })).toMatchObject({ x: expect.any(Array) });
  });

  test('commas and brackets in texts do not count', async () => {
    expect(await parse(JSON.stringify({ text: ',[{'.repeat(40_000) }))).toEqual({ text: ',[{'.repeat(40_000) });
  });

  test('depth is bounded, also far into a large body', async () => {
    const deep = `${'['.repeat(JSON_DEPTH_MAX + 1)}${']'.repeat(JSON_DEPTH_MAX + 1)}`;
    expect((await refusal(deep)).detail).toContain(`deeper than ${JSON_DEPTH_MAX} levels`);
    expect((await refusal(`{"a":"${'x'.repeat(MIB)}","b":${deep}}`)).detail).toContain(`deeper than ${JSON_DEPTH_MAX} levels`);
  });
});
