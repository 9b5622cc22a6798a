import { z } from 'zod';
import { defineOperation } from './operation.ts';
import { WHOLE_WORKSPACE } from './scope.ts';

export const configOperations = {
  getConfig: defineOperation({
    id: 'getConfig',
    method: 'GET',
    path: '/api/config',
    scope: WHOLE_WORKSPACE,
    tag: 'daemon',
    role: 'operator',
    unknownFields: 'ignore',
    summary:
      'The configuration in force, defaults included, secrets taken out; which changes of agent.yaml took effect at once, and which wait.',
    input: z.object({}),
    output: z.object({
      file: z.string().nullable(),
      config: z.record(z.string(), z.unknown()),
      /** What is odd but not wrong. */
      problems: z.array(z.string()),
      /** Why the file as it stands is not taken: then the last good one stays in force. */
      fault: z.string().nullable(),
      /** Keys whose changes take effect at once; `*` stands for a name. */
      reloaded: z.array(z.string()),
      /** Keys that differ in the file and wait for a restart. */
      waiting: z.array(z.string()),
      /** Files of the identity and the configuration at the top of the workspace; sizes in bytes. */
      files: z.array(
        z.object({
          name: z.string(),
          size: z.int(),
          /** Secrets taken out; null when the file is too large, or cannot be read as what it is. */
          content: z.string().nullable(),
        }),
      ),
    }),
    errors: [],
    source: 'spec/native-runtime',
  }),
};
