import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

/** Servers, databases and processes are real, and the machine may be busy with other things; unit: milliseconds. */
const TEST_TIMEOUT_MS = 30_000;
/** Many tests wait for processes and timers, so one worker more than two cores does not hurt. */
const WORKERS_MIN = 3;
const SOAK_TIMEOUT_MS = 3_600_000;
/** A shared machine can stall a process for seconds. `.ci/run` names the tests that needed their second run; they are to be mended. */
const RETRIES = process.env.CI ? 1 : 0;

// A developer's own keys and settings must not reach the tests: none may call a model provider or touch a real workspace.
for (const name of Object.keys(process.env)) {
  if (/^(SIGNET|SIGNALS|ANTHROPIC|OPENAI)_/.test(name)) delete process.env[name];
}

export default defineConfig(({ mode }) => {
  const soak = mode === 'soak';
  return {
    test: {
      include: soak ? ['test/soak/**/*.test.ts', 'test/acceptance/{readers,sessions}.test.ts'] : ['test/**/*.test.ts'],
      exclude: soak ? [] : ['test/soak/**'],
      // The same tests with larger numbers.
      env: { SOAK: soak ? '1' : '' },
      pool: 'forks',
      // By itself Vitest leaves a core free, which on two cores is half of the machine.
      maxWorkers: Math.max(WORKERS_MIN, availableParallelism() - 1),
      // A worker keeps the modules it has loaded: loading them for each file was a third of all processor time. Tests leave no state in modules.
      isolate: false,
      testTimeout: soak ? SOAK_TIMEOUT_MS : TEST_TIMEOUT_MS,
      hookTimeout: TEST_TIMEOUT_MS,
      retry: soak ? 0 : RETRIES,
      passWithNoTests: soak,
      coverage: { include: ['src/**', 'machines/**'], reporter: ['text-summary', 'html'] },
    },
  };
});
