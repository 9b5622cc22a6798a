import { z } from 'zod';
import { plainUrl } from './plain-url.ts';

/** The model when none is named. */
export const EMBEDDING_MODEL = 'nomic-embed-text';

type Addressed = { readonly provider: string; readonly baseUrl?: string; readonly base_url?: string };

/** `embedding:` of agent.yaml; `memory.embeddings` is the same and goes first. Other Signet software keeps keys of its own here: they are left alone. */
export const EmbeddingConfig = z
  .looseObject({
    provider: z
      .enum(['auto', 'openai-compatible', 'openai', 'ollama', 'native', 'none'])
      .default('none')
      .describe(
        'Who turns texts into vectors: openai-compatible asks baseUrl, openai the API of OpenAI where no baseUrl is given, ollama its own API, auto the first of them that is configured; native is not ours and means none, which searches by words alone',
      ),
    baseUrl: plainUrl().optional().describe('Where it answers, /v1 included for openai-compatible; ollama has a default'),
    base_url: plainUrl().optional().describe('Older name of baseUrl'),
    model: z
      .string()
      .min(1)
      .max(256)
      .default(EMBEDDING_MODEL)
      .describe('Model that makes the vectors; text-embedding-3-small where OpenAI is asked and none is named'),
    dimensions: z.int().min(1).max(8_192).optional().describe('Length every vector must have; without it, that of the first answer'),
    apiKeyEnv: z
      .string()
      .min(1)
      .max(256)
      .optional()
      .describe('Name of the environment variable that holds the key; OPENAI_API_KEY for openai without a baseUrl'),
    apiKey: z.string().max(1_024).optional().describe('The key itself; apiKeyEnv is the safer way'),
    api_key: z.string().max(1_024).optional().describe('Older name of apiKey'),
    price: z.number().min(0).optional().describe('US dollars per million tokens; known for the models of OpenAI'),
    timeoutMs: z.int().min(50).max(10_000).default(800).describe('Longest wait for the vector of a query; after it, words alone answer'),
  })
  .superRefine(({ provider, baseUrl, base_url }: Addressed, context) => {
    if (baseUrl !== undefined || base_url !== undefined || provider !== 'openai-compatible') return;
    context.addIssue({ code: 'custom', path: ['baseUrl'], message: 'is required for openai-compatible, such as http://127.0.0.1:8080/v1' });
  });
export type EmbeddingConfig = z.output<typeof EmbeddingConfig>;
