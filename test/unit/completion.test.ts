import { execFileSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { completionScript } from '../../src/cli/completion.ts';
import type { CliContext } from '../../src/cli/context.ts';
import { createProgram } from '../../src/cli/program.ts';

const program = createProgram({ version: '9.9.9' } as CliContext);

/** What bash offers after these words; the last one is being typed. */
function offers(...words: string[]): string[] {
  const script = `${completionScript(program, 'bash')}
COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length - 1}
_signet; printf '%s\\n' "\${COMPREPLY[@]}"`;
  return execFileSync('bash', ['-c', script], { encoding: 'utf8' }).split('\n').filter(Boolean);
}

describe('completion in bash', () => {
  test('offers the commands of the place', () => {
    expect(offers('signet', 'st')).toEqual(['start', 'stop', 'status']);
    expect(offers('signet', 'daemon', 'st')).toEqual(['start', 'stop', 'status']);
    expect(offers('signet', 'session', '')).toEqual(expect.arrayContaining(['list', 'show', 'events', 'abort', 'end']));
    expect(offers('signet', 'session', '')).not.toContain('start');
    expect(offers('signet', 'he')).toEqual(['help']);
    expect(offers('signet', 'help', 'st')).toEqual(['start', 'stop', 'status']);
  });

  test('offers the flags of the place, also behind other flags', () => {
    expect(offers('signet', 'start', '--r')).toEqual(['--runtime-host', '--runtime-port', '--role', '--record', '--replay']);
    expect(offers('signet', 'chat', '--agent', 'scout', '--pr')).toEqual(
      ['--model', '--provider', '--project', '--print'].filter((flag) => flag.startsWith('--pr')),
    );
    expect(offers('signet', 'session', 'end', '--pu')).toEqual(['--purge']);
  });

  test('offers the choices of a flag, and leaves other values to the shell', () => {
    expect(offers('signet', 'logs', '--level', 'w')).toEqual(['warn']);
    expect(offers('signet', 'session', 'list', '--state', 'tool')).toEqual(['tool-looping']);
    expect(offers('signet', 'start', '--path', '')).toEqual([]);
    expect(offers('signet', 'completion', '')).toEqual(['bash', 'zsh', 'fish', '--help', '-h']);
  });
});

test('scripts of zsh and fish know every command and flag', () => {
  for (const shell of ['zsh', 'fish'] as const) {
    const script = completionScript(program, shell);
    for (const word of ['start', 'chat', 'session', 'events', 'completion', 'runtime-port', 'clear-queue']) expect(script).toContain(word);
  }
  expect(completionScript(program, 'fish')).toContain("-l level -x -a 'trace debug info warn error fatal'");
});
