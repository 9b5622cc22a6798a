import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Player } from '../../src/index.ts';
import { signalMatchers } from '../../src/vitest.ts';
import { type Signet, startSignet } from '../helpers/signet.ts';

expect.extend(signalMatchers);

const ID = 'ses_played';
let signet: Signet;
let text: string;

beforeAll(async () => {
  signet = await startSignet();
  await signet.client.session.create({ id: ID, title: 'Tea' });
  await signet.client.session.prompt(ID, { content: 'remember I like green tea' });
  await signet.client.session.update(ID, { title: 'Green tea' });
  text = String(await signet.client.session.exportLog(ID));
});

afterAll(() => signet.close());

test('an exported log is played forwards and back, with the state at each place', () => {
  const player = Player.fromLog(text);
  const title = () => (player.state.sessions[ID]?.session as { title: string } | undefined)?.title;

  expect([player.position, player.current, title()]).toEqual([0, null, undefined]);
  expect(player.step()).toBe(true);
  expect([player.current?.name, title()]).toEqual(['session:created', 'Tea']);
  expect(player.gotoNext('session:updated')?.name).toBe('session:updated');
  expect(title()).toBe('Green tea');
  const there = player.position;
  expect(player.back()).toBe(true);
  expect([player.position, title()]).toEqual([there - 1, 'Tea']);
  expect(player.gotoNext('session:updated')?.seq).toBe(there);
  expect(player.gotoNext('session:updated')).toBe(null);
  expect(player.position).toBe(there);
  expect(player.goto(1_000_000)).toBe(false);
  expect([player.position, player.step()]).toEqual([player.signals.length, false]);
  expect(player.goto(-1)).toBe(false);
  expect(player.position).toBe(0);
});

test('going back gives the very state there was, and what was read of it does not change', () => {
  const player = Player.fromLog(text);
  const states = player.signals.map(() => player.step() && player.state);
  for (let position = player.signals.length; position > 0; position -= 1) {
    player.goto(position);
    expect(player.state).toEqual(states[position - 1]);
  }
});

test('signals are found by pattern, and a wrong pattern or place is refused', () => {
  const player = Player.fromLog(text);
  expect(player.findAll('tool:*').map(({ name }) => name)).toEqual(['tool:call', 'tool:result']);
  expect(player.position).toBe(0);
  expect(() => player.findAll('*')).toThrow('did you mean');
  expect(() => player.goto(1.5)).toThrow('whole number');
  expect(() => Player.fromLog(text.replace('green', 'black'))).toThrow('digest');
});

test('a log that was exported to a file replays, and a changed one does not', async () => {
  const file = join(signet.folder, 'played.jsonl');
  writeFileSync(file, text);
  await expect(file).toReplay();
  await expect(Player.fromLog(text)).toReplay();
  writeFileSync(file, text.replace('green', 'black'));
  expect(
    (
      await expect(file)
        .toReplay()
        .catch((error) => error)
    ).message,
  ).toContain('digest');
});
