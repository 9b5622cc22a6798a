import { test } from 'vitest';
import { killWhileRemembering } from '../e2e/memory-kill.ts';
import { tempFolder } from '../helpers/daemon-fixture.ts';

test('fifty times kill -9 while 16 connections remember: no acknowledged memory is lost', async () => {
  await killWhileRemembering(tempFolder(), 50);
}, 1_800_000);
