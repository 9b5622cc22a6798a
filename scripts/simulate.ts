import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';

// Usage: npm run simulate -- [--seeds N] [--seed S] [--sessions M] [--steps K] [--json]. The simulation is test code, and a program of its own.
const program = resolve(import.meta.dirname, '..', 'test', 'simulation', 'main.ts');
const { status, error } = spawnSync(process.execPath, [program, ...process.argv.slice(2)], { stdio: 'inherit' });
if (error) process.stderr.write(`the simulation could not be started: ${error.message}\n`);
process.exitCode = status ?? 1;
