import { expect, test } from 'vitest';
import { isAppError } from '../../src/core/errors.ts';
import { nearestNames } from '../../src/core/nearest-name.ts';
import { compileAcceptedInput, compileInputCheck, SCHEMA_DEPTH_MAX, SCHEMA_PARTS_MAX } from '../../src/tools/tool-input.ts';
import { writeOutput } from '../../src/tools/tool-output.ts';

const compiled = (schema: Record<string, unknown>) => compileInputCheck('lamp', { type: 'object', ...schema });

function refusal(schema: Record<string, unknown>): string {
  try {
    compileInputCheck('lamp', schema);
  } catch (error) {
    if (isAppError(error, 'invalid_request')) return error.detail;
    throw error;
  }
  return 'taken';
}

test('a fault names the field, what is wrong and what would be right', () => {
  const check = compiled({
    properties: {
      level: { type: 'integer', description: 'percent' },
      mode: { enum: ['on', 'off'] },
      room: { type: 'object', properties: { name: { type: 'string' } } },
    },
    required: ['level'],
    additionalProperties: false,
  });

  expect(check({ mode: 'dim', colour: 'red', room: { name: 4 } })).toEqual([
    { pointer: '/level', detail: 'is missing; give a value of type integer (percent)' },
    { pointer: '/colour', detail: 'is not a field here; leave it out (fields: level, mode, room)' },
    { pointer: '/mode', detail: 'must be one of "on", "off"' },
    { pointer: '/room/name', detail: 'must be string, not number' },
  ]);
});

test('an input that fits has no faults, and one that is no object says so', () => {
  const check = compiled({ properties: { level: { type: 'integer' } } });

  expect(check({ level: 3 })).toEqual([]);
  expect(check('{"level": 3')).toEqual([{ pointer: '', detail: 'must be object, not string' }]);
  expect(check([])).toEqual([{ pointer: '', detail: 'must be object, not array' }]);
});

test('at most eight faults are named', () => {
  const required = Array.from({ length: 20 }, (_, index) => `f${index}`);
  expect(compiled({ required })({})).toHaveLength(8);
});

test('a field name with a slash or a tilde is a valid pointer', () => {
  expect(compiled({ required: ['a/b~c'] })({})[0]!.pointer).toBe('/a~1b~0c');
});

test('both dialects are read, named or not', () => {
  const pair2020 = { properties: { pair: { type: 'array', prefixItems: [{ type: 'number' }] } } };
  const pair7 = { properties: { pair: { type: 'array', items: [{ type: 'number' }] } } };
  for (const schema of [
    pair2020,
    { $schema: 'https://json-schema.org/draft/2020-12/schema', ...pair2020 },
    pair7,
    { $schema: 'http://json-schema.org/draft-07/schema#', ...pair7 },
  ]) {
    const check = compiled(schema);
    expect(check({ pair: [1] })).toEqual([]);
    expect(check({ pair: ['one'] })).toEqual([{ pointer: '/pair/0', detail: 'must be number, not string' }]);
  }
});

test('unknown keywords and formats do not stand in the way', () => {
  expect(compiled({ 'x-shown': true, properties: { at: { type: 'string', format: 'moon-phase' } } })({ at: 'full' })).toEqual([]);
});

test('two tools may use the same $id, and a schema may refer to itself', () => {
  const tree = { $id: 'https://example.org/tree', properties: { leaf: { $ref: '#' }, name: { type: 'string' } } };
  const first = compiled(tree);
  const second = compiled({ ...tree, required: ['name'] });

  expect(first({ leaf: { name: 1 } })).toEqual([{ pointer: '/leaf/name', detail: 'must be string, not number' }]);
  expect(second({})).toHaveLength(1);
  const nameless = compiled({
    properties: { leaf: { $ref: '#' }, name: { type: 'string' }, part: { $ref: '#/$defs/part' } },
    $defs: { part: { const: 1 } },
  });
  expect(nameless({ leaf: { leaf: { name: 1 } }, part: 2 }).map(({ pointer }) => pointer)).toEqual(['/leaf/leaf/name', '/part']);
});

test('a check that would take minutes is given up, and the next one works', () => {
  const pattern = compiled({ properties: { s: { type: 'string', pattern: '^(a+)+$' } } });
  expect(pattern({ s: `${'a'.repeat(60)}!` })).toEqual([
    { pointer: '', detail: expect.stringContaining('could not be checked with 500 ms of CPU') },
  ]);
  expect(pattern({ s: 'aaa' })).toEqual([]);
  expect(pattern({ s: 'b' })).toEqual([{ pointer: '/s', detail: 'must match pattern "^(a+)+$"' }]);
  const distinct = compiled({ properties: { list: { type: 'array', uniqueItems: true } } });
  expect(distinct({ list: Array.from({ length: 40_000 }, (_, n) => ({ n })) })).toMatchObject([{ pointer: '' }]);
});

test('each item by each part of a schema is given up as well, before its faults fill the memory', () => {
  const items = { allOf: Array.from({ length: 300 }, (_, n) => ({ const: n })) };
  const check = compiled({ properties: { list: { type: 'array', items } } });
  expect(check({ list: Array.from({ length: 200_000 }, () => 1) })).toMatchObject([
    { pointer: '', detail: expect.stringContaining('500 ms of CPU') },
  ]);
});

test('whether a schema is accepted depends on its size alone: chars, parts and depth, each with its bound', () => {
  const parts = (count: number) => ({ type: 'object', anyOf: Array.from({ length: count - 2 }, (_, n) => ({ const: n })) });
  const nested = (depth: number): Record<string, unknown> =>
    depth === 1 ? { type: 'object' } : { type: 'object', additionalProperties: nested(depth - 1) };

  expect(refusal(parts(SCHEMA_PARTS_MAX))).toBe('taken');
  expect(refusal(parts(SCHEMA_PARTS_MAX + 1))).toContain('has 2001 objects and lists, more than 2000');
  expect(refusal(nested(SCHEMA_DEPTH_MAX))).toBe('taken');
  expect(refusal(nested(SCHEMA_DEPTH_MAX + 1))).toContain('is nested 129 levels deep');
});

test('a definition that is referred to hundreds of times is compiled once', () => {
  const options = Array.from({ length: 600 }, (_, n) => ({ const: n }));
  const allOf = Array.from({ length: 600 }, () => ({ $ref: '#/$defs/one' }));
  // Written out 600 times it would be 360,000 parts: that ended the process for want of memory.
  expect(compiled({ $defs: { one: { anyOf: options } }, properties: { n: { allOf } } })({ n: 3 })).toEqual([]);
});

test('a schema that was accepted before is compiled whatever its size, and one that is none says so each time', () => {
  const anyOf = Array.from({ length: SCHEMA_PARTS_MAX + 100 }, (_, n) => ({ const: n }));
  expect(compileAcceptedInput('lamp', { type: 'object', properties: { n: { anyOf } } })({ n: 7 })).toEqual([]);
  const none = () => compileAcceptedInput('lamp', { type: 'object', properties: { a: { type: 'strnig' } } });
  expect(none).toThrow('tool_failed: inputSchema of tool lamp is not a valid JSON Schema');
  expect(none).toThrow('tool_failed');
});

test('an input that is nested too deeply for a schema that refers to itself is a fault', () => {
  const check = compiled({ properties: { next: { $ref: '#' } } });
  let deep = {};
  for (let level = 0; level < 50_000; level += 1) deep = { next: deep };
  expect(check(deep)).toEqual([{ pointer: '', detail: expect.stringContaining('nested too deeply') }]);
});

test('a schema that is none is refused with the reason', () => {
  expect(refusal({ type: 'string' })).toBe('inputSchema of tool lamp must have "type": "object"');
  expect(refusal({ type: 'object', properties: { a: { type: 'strnig' } } })).toContain('is not a valid JSON Schema');
  expect(refusal({ type: 'object', properties: { a: { $ref: 'https://example.org/elsewhere' } } })).toContain("can't resolve reference");
  expect(refusal({ type: 'object', $async: true })).toContain('asynchronous');
  expect(refusal({ type: 'object', description: 'x'.repeat(100_000) })).toContain('more than 100000; shorten it');
});

test('strings are the output as they are, other values as JSON', () => {
  expect(writeOutput('two\nlines', 1_000)).toEqual({ text: 'two\nlines', value: 'two\nlines', bytes: 9, truncated: false });
  expect(writeOutput({ a: [1, null] }, 1_000)).toEqual({ text: '{"a":[1,null]}', value: { a: [1, null] }, bytes: 14, truncated: false });
  expect(writeOutput(undefined, 1_000)).toMatchObject({ text: '(no output)', value: null });
  expect(writeOutput('', 1_000)).toMatchObject({ text: '', value: '' });
  expect(writeOutput(0, 1_000)).toMatchObject({ text: '0', value: 0 });
});

test('values without JSON still have a text, and their value is that text', () => {
  const circle: Record<string, unknown> = { name: 'ring', twice: [] };
  const shared = { shared: true };
  circle.self = circle;
  circle.twice = [shared, shared];

  expect(writeOutput(circle, 1_000)).toMatchObject({
    text: '{"name":"ring","twice":[{"shared":true},{"shared":true}],"self":"[Circular]"}',
    value: '{"name":"ring","twice":[{"shared":true},{"shared":true}],"self":"[Circular]"}',
  });
  expect(writeOutput({ big: 12345678901234567890n }, 1_000).text).toBe('{"big":"12345678901234567890"}');
  expect(writeOutput(7n, 1_000).value).toBe('"7"');
  expect(writeOutput('half \ud83d', 1_000).text).toBe('half \ufffd');
});

test('output above the limit is cut between characters and says by how much', () => {
  const { text, bytes, truncated, value } = writeOutput('€'.repeat(200), 301);

  expect(text).toBe(`${'€'.repeat(57)}\n[cut: 171 of 600 bytes shown, 429 left out; ask for less or in parts]`);
  expect(value).toBe(text);
  expect([bytes, truncated]).toEqual([600, true]);
  expect(Buffer.byteLength(text)).toBeLessThanOrEqual(301);
  expect(writeOutput('€'.repeat(100), 300)).toMatchObject({ bytes: 300, truncated: false });
});

test('the nearest names come first, and none when nothing is near', () => {
  const names = ['memory_get', 'memory_search', 'memory_store', 'shell'];
  expect(nearestNames('memory_serch', names)).toEqual(['memory_search', 'memory_get', 'memory_store']);
  expect(nearestNames('MEMORY-GET', names)[0]).toBe('memory_get');
  expect(nearestNames('q', names)).toEqual([]);
  expect(nearestNames('x'.repeat(100_000), names)).toEqual([]);
});
