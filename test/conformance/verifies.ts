import { type TestAPI, type TestContext, test } from 'vitest';
import { type RequirementId, requirementOf } from './requirements.ts';

type Body<Fixtures> = (context: TestContext & Fixtures) => unknown;
type Ids = RequirementId | readonly [RequirementId, ...RequirementId[]];

interface Verifies<Fixtures> {
  (ids: Ids, body: Body<Fixtures>, timeoutMs?: number): void;
  (ids: Ids, name: string, body: Body<Fixtures>, timeoutMs?: number): void;
}

/**
 * Declare a test that proves one promise or several; it is named after the ids and what they promise, or after `name`.
 * Write the ids as literals right after the bracket: the gate in requirements.test.ts finds citations by reading the text of the tests.
 *
 * @param timeoutMs  how long the test may take, when vitest's default is too short
 * @throws Error at declaration when an id is not in the list, which fails the test file
 */
export const verifies: Verifies<object> = verifiesWith(test);

/** The same on a `test` with fixtures: `const verifies = verifiesWith(test.extend({ daemon: ... }))`. The name must stay `verifies`. */
export function verifiesWith<Fixtures>(base: TestAPI<Fixtures>): Verifies<Fixtures> {
  return (ids: Ids, ...rest: [Body<Fixtures>, number?] | [string, Body<Fixtures>, number?]): void => {
    const rows = (typeof ids === 'string' ? [ids] : ids).map(requirementOf);
    const cited = rows.map((row) => row.id).join(', ');
    if (typeof rest[0] === 'string') {
      const [name, body, timeoutMs] = rest as [string, Body<Fixtures>, number?];
      base(`${cited}: ${name}`, body, timeoutMs);
    } else {
      const [body, timeoutMs] = rest as [Body<Fixtures>, number?];
      base(`${cited}: ${rows.map((row) => row.behaviour).join('; ')}`, body, timeoutMs);
    }
  };
}
