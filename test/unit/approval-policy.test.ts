import { expect, test } from 'vitest';
import { AgentYaml, type ApprovalRule } from '../../src/contract/config.ts';
import { callPolicy } from '../../src/runtime/approval-policy.ts';
import { fitsGlob } from '../../src/runtime/text-glob.ts';

const decide = (approvals: ApprovalRule[], tool: string, input: unknown, agent = 'default') =>
  callPolicy({ approvals, approvalExpiry: 'deny' }, { tool, input, agent, needsApproval: false }).approval;

test('a rule on the input fits when all of its fields do, and the first rule that fits decides', () => {
  const rules: ApprovalRule[] = [
    { tool: 'shell', input: { command: 'rm *' }, decision: 'deny' },
    { tool: 'shell', input: { command: 'git *', 'options.force': false }, decision: 'allow' },
    { tool: 'write', input: { '/files/0/path': '/etc/*', '/a~1b/c~0d': 'x' }, decision: 'deny' },
    { tool: '*', decision: 'ask' },
  ];
  expect(decide(rules, 'shell', { command: 'rm -rf /' })).toBe('deny');
  expect(decide(rules, 'shell', { command: 'git push', options: { force: false } })).toBe('allow');
  expect(decide(rules, 'shell', { command: 'git push', options: { force: 'false' } })).toBe('allow');
  expect(decide(rules, 'shell', { command: 'git push', options: { force: true } })).toBe('ask');
  expect(decide(rules, 'shell', { command: 'git push' })).toBe('ask');
  expect(decide(rules, 'write', { files: [{ path: '/etc/passwd' }], 'a/b': { 'c~d': 'x' } })).toBe('deny');
  expect(decide(rules, 'write', { files: [{ path: '/srv/data' }], 'a/b': { 'c~d': 'x' } })).toBe('ask');
});

test('the reason names the rule, and silence means what the rule or the configuration says', () => {
  const rule: ApprovalRule = { tool: 'shell', input: { command: 'rm *' }, decision: 'ask' };
  const call = { tool: 'shell', input: { command: 'rm x' }, agent: 'default', needsApproval: false };
  expect(callPolicy({ approvals: [rule], approvalExpiry: 'deny' }, call)).toEqual({
    approval: 'ask',
    reason: 'agent.yaml says ask for shell with command "rm *"',
  });
  expect(callPolicy({ approvals: [rule], approvalExpiry: 'allow' }, call).onExpiry).toBe('allow');
  expect(callPolicy({ approvals: [{ ...rule, onExpiry: 'deny' }], approvalExpiry: 'allow' }, call).onExpiry).toBeUndefined();
  expect(callPolicy({ approvals: [{ ...rule, onExpiry: 'allow' }], approvalExpiry: 'deny' }, call).onExpiry).toBe('allow');
});

test('an input that is none, that is deep, or that borrows from its prototype fits no rule', () => {
  const rule = (path: string): ApprovalRule[] => [{ tool: '*', input: { [path]: '*' }, decision: 'deny' }];
  for (const input of [null, undefined, 'rm', 7, [], {}, { command: null }, { command: ['rm', '-rf'] }, { command: { nested: 'rm' } }])
    expect(decide(rule('command'), 'shell', input)).toBe('allow');
  for (const path of ['__proto__.toString', 'constructor.name', 'toString', 'command.constructor', 'command..x', '/', 'x.y.z'])
    expect(decide(rule(path), 'shell', { command: 'rm' })).toBe('allow');
  expect(decide(rule('__proto__'), 'shell', JSON.parse('{"__proto__": "own"}'))).toBe('deny');
});

test('* stands for any run of characters and nothing else has a meaning', () => {
  const fits: [string, string, boolean][] = [
    ['', '', true],
    ['', 'a', false],
    ['*', '', true],
    ['**', 'anything\nat all', true],
    ['rm *', 'rm -rf /', true],
    ['rm *', 'rm', false],
    ['rm *', 'RM x', false],
    ['a*a', 'a', false],
    ['a*a', 'aa', true],
    ['*ab*ab*', 'abab', true],
    ['*ab*ab*', 'aab', false],
    ['*aab', 'aaab', true],
    ['*aabaab*c', 'aabaaabaabc', true],
    ['a.c', 'abc', false],
    ['[a]?(b)', '[a]?(b)', true],
    ['*ü🍵*', 'Grüße ü🍵!', true],
  ];
  for (const [pattern, text, expected] of fits)
    expect({ pattern, text, fits: fitsGlob(pattern, text) }).toEqual({ pattern, text, fits: expected });
});

test('the matcher agrees with a plain reference on many small texts', () => {
  const reference = (p: string, t: string): boolean =>
    p === ''
      ? t === ''
      : p[0] === '*'
        ? reference(p.slice(1), t) || (t !== '' && reference(p, t.slice(1)))
        : p[0] === t[0] && reference(p.slice(1), t.slice(1));
  const words = (letters: string, length: number): string[] =>
    length === 0 ? [''] : ['', ...words(letters, length - 1).flatMap((word) => [...letters].map((letter) => letter + word))];
  const texts = [...new Set(words('ab', 6))];
  for (const pattern of new Set(words('ab*', 5)))
    for (const text of texts) expect(fitsGlob(pattern, text) === reference(pattern, text) || `${pattern} ${text}`).toBe(true);
});

test('a pattern of many stars looks at each character of a hostile text a few times at most', () => {
  let looks = 0;
  const text = new Proxy(Object('a'.repeat(100_000)) as object, {
    get(target, key) {
      if (typeof key === 'string' && /^\d+$/.test(key)) looks += 1;
      const value = Reflect.get(target, key, target) as unknown;
      return typeof value === 'function' ? value.bind(String(target)) : value;
    },
  }) as unknown as string;
  expect(fitsGlob(`${'*aaaaaab'.repeat(60)}*`, text)).toBe(false);
  expect(looks).toBeLessThan(6 * 100_000);
});

test('a rule on no field, on too many, or with a value that is no text is refused when the file is read', () => {
  const parse = (input: unknown) => AgentYaml.safeParse({ runtime: { approvals: [{ tool: 'x', input, decision: 'deny' }] } }).success;
  expect(parse({ command: 'rm *' })).toBe(true);
  expect(parse({})).toBe(false);
  expect(parse({ command: null })).toBe(false);
  expect(parse({ command: ['rm'] })).toBe(false);
  expect(parse({ command: 'x'.repeat(513) })).toBe(false);
  expect(parse(Object.fromEntries(Array.from({ length: 17 }, (_, index) => [`f${index}`, 'x'])))).toBe(false);
});
