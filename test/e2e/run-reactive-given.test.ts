import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { runReactive } from '../../src/index.ts';
import { createPlannedProvider } from '../helpers/planned-provider.ts';

const RUN = { agents: { pear: { prompt: 'look at the pear', activateOn: ['workflow:start'] } } };
const planned = () => createPlannedProvider(() => ({ text: 'seen' }));

test.each([
  [
    { provider: { type: 'anthropic', apiKey: 'key', model: 'm' } },
    '/provider',
    /must be a Provider: .* This one lacks id, kind, defaultModel, complete/,
  ],
  [{ provider: 'planned' }, '/provider', /must be a Provider: .* by its name/],
  [{ input: { a: [1, 10n] } }, '/input/a/1', /is the BigInt 10n, which JSON does not know/],
  [{ state: { 'a/b': 10n } }, '/state/a~1b', /is the BigInt 10n/],
])('is refused when what it is given is not what it takes: %o', async (given, pointer, detail) => {
  const folder = mkdtempSync(join(tmpdir(), 'signet-refused-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const recording = join(folder, 'refused.jsonl');
  const error = await runReactive({ ...RUN, recording, ...given } as never).catch((thrown) => thrown);
  expect([error.code, error.errors]).toEqual(['invalid_workflow', [{ pointer, detail: expect.stringMatching(detail) }]]);
  expect(existsSync(recording)).toBe(false);
});

test('takes a provider that is an instance of a class', async () => {
  class Planned {
    readonly kind = 'planned';
    readonly defaultModel = 'planned';
    readonly id = 'planned';
    readonly #own = planned();
    stream = this.#own.stream;
    complete() {
      return this.#own.complete([]);
    }
    available() {
      return this.#own.available();
    }
    models() {
      return this.#own.models();
    }
  }
  expect((await runReactive({ ...RUN, provider: new Planned() })).reason).toBe('quiescent');
});
