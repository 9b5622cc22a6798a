import { resolve } from 'node:path';
import { describe, expect, expectTypeOf, test } from 'vitest';
import { checkRequirements, collectCitations, readCitations } from './requirements.gate.ts';
import type { Requirement } from './requirements.row.ts';
import { REQUIREMENTS, type RequirementId, requirementOf } from './requirements.ts';

const TEST_FOLDER = resolve(import.meta.dirname, '..');
/** This file quotes made-up citations, so it is not read for real ones. */
const OWN_FILE = 'conformance/requirements.test.ts';

test('every tested promise is cited by a test, no open one is, and every cited id exists', () => {
  expect(checkRequirements(REQUIREMENTS, collectCitations(TEST_FOLDER, [OWN_FILE]))).toEqual([]);
});

test('all five documents have promises in the list', () => {
  const documents = new Set(REQUIREMENTS.map(({ source }) => source.split(' ')[0]));
  expect([...documents].sort()).toEqual(['spec/hooks', 'spec/mcp-server', 'spec/multi-agent', 'spec/native-runtime', 'spec/signal-system']);
  expect(REQUIREMENTS.length).toBeGreaterThan(500);
});

test('an id that is not in the list is refused by the type and at run time', () => {
  expectTypeOf<'hooks.bypass.remember'>().toExtend<RequirementId>();
  expectTypeOf<'hooks.bypass.remembers'>().not.toExtend<RequirementId>();
  expect(requirementOf('hooks.bypass.remember').source).toBe('spec/hooks "Per-Session Bypass"');
  expect(() => requirementOf('hooks.bypass.remembers' as RequirementId)).toThrow('no requirement has the id "hooks.bypass.remembers"');
});

describe('the gate on made-up data', () => {
  const tea = row({ id: 'tea.boil', behaviour: 'Water boils first' });
  const pour = row({ id: 'tea.pour', behaviour: 'Tea is poured', state: 'tested' });
  const citation = { id: 'tea.pour', file: 'unit/tea.test.ts' };

  test('passes when the tested row is cited and the open one is not', () => {
    expect(checkRequirements([tea, pour], [citation])).toEqual([]);
  });

  test('reports a tested row that no test cites', () => {
    expect(checkRequirements([tea, pour], [])).toEqual(['tea.pour is marked tested, but no test cites it']);
  });

  test('reports an open row that a test cites', () => {
    expect(checkRequirements([tea, pour], [citation, { id: 'tea.boil', file: 'unit/pot.test.ts' }])).toEqual([
      'tea.boil is marked open, but unit/pot.test.ts cites it: mark it tested',
    ]);
  });

  test('reports a citation of an id that is not in the list', () => {
    expect(checkRequirements([pour], [citation, { id: 'tea.steep', file: 'unit/pot.test.ts' }])).toEqual([
      'unit/pot.test.ts cites tea.steep, which is not in the list',
    ]);
  });

  test('reports an id that is listed twice', () => {
    expect(checkRequirements([tea, row({ id: 'tea.boil', behaviour: 'Another sentence' })], [])).toEqual(['tea.boil is listed twice']);
  });

  test.each(['tea', 'Tea.boil', 'tea..boil', 'tea.', '.boil', 'tea.boil water', 'tea.-boil'])('reports the malformed id "%s"', (id) => {
    expect(checkRequirements([row({ id })], [])).toEqual([`${id} is not a dotted lower-case id`]);
  });

  test('reports an unknown document, an empty behaviour and a repeated one', () => {
    const rows = [
      tea,
      row({ id: 'tea.cup', source: 'spec/tea "Cups"', behaviour: ' ' }),
      row({ id: 'tea.again', behaviour: tea.behaviour }),
    ];
    expect(checkRequirements(rows, [])).toEqual([
      'tea.cup names no known document and heading: spec/tea "Cups"',
      'tea.cup says no behaviour',
      'tea.again repeats the behaviour of another row',
    ]);
  });
});

describe('citations are found in the text of a test', () => {
  test('as a single id, on the same line or on the next', () => {
    expect(readCitations("verifies('a.b', () => {});\nverifies(\n  'c.d',\n  async () => {});")).toEqual(['a.b', 'c.d']);
  });

  test('as a list of ids over several lines, without the name that follows', () => {
    expect(readCitations("verifies(['a.b', 'c.d'], 'a name', () => {});\nverifies(\n  [\n    'e.f',\n    'g.h',\n  ],\n  fn,\n);")).toEqual(
      ['a.b', 'c.d', 'e.f', 'g.h'],
    );
  });

  test('but not in comments, nor in calls of another function', () => {
    const text =
      "// verifies('a.b', fn);\n  /* verifies('c.d', fn);\n  */\n * @example\nreverifies('e.f', fn);\nverifies('g.h', fn); // kept";
    expect(readCitations(text)).toEqual(['g.h']);
  });
});

function row(fields: Partial<Requirement>): Requirement {
  return { id: 'tea.boil', source: 'spec/hooks "Overview"', behaviour: 'Something is promised', state: 'open', ...fields };
}
