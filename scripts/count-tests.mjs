import { existsSync, readFileSync } from 'node:fs';

// Usage: node scripts/count-tests.mjs <vitest's JSON report> <failed steps>
// Prints the tests that needed a second run, then `N passed, M failed` as the last line; exits 1 when a step or a test failed, or when no test ran.
// Plain JavaScript for any Node: it has to tell the result even when the toolchain is what failed.

const [file = '', steps = '0'] = process.argv.slice(2);
const report = file && existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {};
const passed = report.numPassedTests ?? 0;
// A file that could not be loaded has no tests to count, and is a failure all the same.
const unloaded = (report.testResults ?? []).filter((suite) => suite.status === 'failed' && suite.assertionResults.length === 0).length;
const failedTests = (report.numFailedTests ?? 0) + unloaded;
// The step that ran the tests has failed for its tests; the others count as one failure each.
const failed = failedTests + Math.max(0, Number(steps) - (failedTests > 0 ? 1 : 0));

const results = (report.testResults ?? []).flatMap((suite) => suite.assertionResults);
for (const { status, fullName, failureMessages } of results) {
  if (status === 'passed' && failureMessages.length > 0) console.log(`passed at the second run only: ${fullName}: ${failureMessages[0]}`);
}
console.log(`${passed} passed, ${passed === 0 ? Math.max(1, failed) : failed} failed`);
process.exitCode = failed > 0 || passed === 0 ? 1 : 0;
