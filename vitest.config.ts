import { defineConfig } from 'vitest/config';

/** Servers, databases and processes are real, and the machine may be busy with other things; unit: milliseconds. */
const TEST_TIMEOUT_MS = 30_000;
const SOAK_TIMEOUT_MS = 3_600_000;

// A developer's own keys and settings must not reach the tests: none may call a model provider or touch a real workspace.
for (const name of Object.keys(process.env)) {
  if (/^(SIGNET|ANTHROPIC|OPENAI)_/.test(name)) delete process.env[name];
}

export default defineConfig(({ mode }) => {
  const soak = mode === 'soak';
  return {
    test: {
      include: soak ? ['test/soak/**/*.test.ts'] : ['test/**/*.test.ts'],
      exclude: soak ? [] : ['test/soak/**'],
      pool: 'forks',
      testTimeout: soak ? SOAK_TIMEOUT_MS : TEST_TIMEOUT_MS,
      hookTimeout: TEST_TIMEOUT_MS,
      passWithNoTests: soak,
      coverage: { include: ['src/**', 'machines/**'], reporter: ['text-summary', 'html'] },
    },
  };
});
