import { test } from 'vitest';
import { tempFolder } from '../helpers/daemon-fixture.ts';
import { killWhileRemembering } from './memory-kill.ts';

test('kill -9 while 16 connections remember: every acknowledged memory is there, is found, and the index agrees with the table', async () => {
  await killWhileRemembering(tempFolder(), 3);
}, 180_000);
