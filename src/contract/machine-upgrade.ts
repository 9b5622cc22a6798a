import { z } from 'zod';
import { Metadata } from './ids.ts';
import { Usage } from './provider.ts';

const count = z.int().min(0);
const MachineRef = z.object({ id: z.string(), version: z.string(), digest: z.string() });

/** How a session goes on whose log was written by another version of the statechart. */
export const MachineUpgrade = z.object({
  machine: z.object({ from: MachineRef, to: MachineRef }),
  /** State and context of the last turn boundary, in the terms of the new machine. */
  value: z.enum(['starting', 'idle']),
  context: Metadata,
  /** The turn that was open, which the new machine cannot go on with. */
  open: z
    .object({
      turn: count,
      promptId: z.string(),
      promptIds: z.array(z.string()),
      rounds: count,
      toolCalls: count,
      usage: Usage,
      costUsd: z.number().nullable(),
      startedAt: z.string(),
    })
    .nullable(),
  compacting: z.boolean(),
});
