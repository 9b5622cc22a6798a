import { realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import type { RuntimeClient } from '../client/runtime-client.ts';
import type { Generation } from '../contract/generation.ts';
import { PROMPT_CHARS_MAX, type Session } from '../contract/session.ts';
import { mergeGeneration } from '../core/generation.ts';
import type { ChatFlags } from './chat-conversation.ts';
import { printAnswer } from './chat-print.ts';
import { converse } from './chat-terminal.ts';
import { type CliContext, CliExit, EXIT } from './context.ts';
import { answers, startInBackground } from './daemon-start.ts';
import { createStyle } from './terminal.ts';
import { clientAt, findRuntime } from './workspace.ts';

/** The name of this client as a harness. @source spec/native-runtime, "RuntimeAdapter" */
const HARNESS = 'signet-cli';

/** A conversation in the terminal, or one prompt with --print: a client of the runtime and nothing more. */
export async function chat(context: CliContext, flags: ChatFlags): Promise<void> {
  if (flags.json && flags.print === undefined) throw new CliExit(EXIT.usage, '--json needs --print: it shows one answer as JSON');
  const text = flags.print === '-' ? await readPrompt(context) : flags.print;
  if (text !== undefined && text.trim() === '') throw new CliExit(EXIT.usage, 'the prompt is empty');
  const client = await reachRuntime(context, flags);
  const session = await openSession(context, client, flags);
  if (text === undefined) await converse({ context, client, session, flags });
  else await printAnswer({ context, client, session, flags }, text);
}

/** A client of what answers; when nothing does and the address is not somebody else's, a daemon is started first. */
async function reachRuntime(context: CliContext, flags: ChatFlags): Promise<RuntimeClient> {
  const address = findRuntime(context, flags);
  if (address) {
    const client = clientAt(context, address.url, flags.path);
    if (await answers(client)) return client;
    if (address.given)
      throw new CliExit(EXIT.failure, `no runtime answers at ${address.url}; start one there, or leave --url and SIGNET_RUNTIME_URL out`);
  }
  const style = createStyle(context.stderr, context.env);
  context.stderr.write(style.dim('Signet is not running; starting it in the background (stop it with: signet stop)\n'));
  return (await startInBackground(context, { path: flags.path })).client;
}

async function openSession(context: CliContext, client: RuntimeClient, flags: ChatFlags): Promise<Session> {
  const { agent, model, provider } = flags;
  const generation = mergeGeneration(flags);
  if (flags.session === undefined) {
    const bypass = context.env.SIGNET_BYPASS === '1';
    const project = projectFolder(context, flags.project);
    return client.session.create({ harness: HARNESS, agent, model, provider, ...generation, project, ...(bypass ? { bypass } : {}) });
  }
  const session = await client.session.get(flags.session);
  if (agent !== undefined && agent !== session.agent) {
    throw new CliExit(EXIT.usage, `session ${session.id} belongs to agent ${session.agent}; its agent cannot be changed`);
  }
  if (session.state === 'ended') return reopen(context, client, session, { provider, model, ...generation });
  const change = { model, provider, ...generation };
  return Object.values(change).every((value) => value === undefined) ? session : client.session.update(session.id, change);
}

/** What has ended goes on in a new session, from its checkpoint, under the same key and agent. */
async function reopen(
  context: CliContext,
  client: RuntimeClient,
  ended: Session,
  choice: Generation & Pick<ChatFlags, 'provider' | 'model'>,
): Promise<Session> {
  const bypass = context.env.SIGNET_BYPASS === '1';
  const { provider = ended.provider ?? undefined, model = ended.model ?? undefined } = choice;
  const generation = mergeGeneration(choice);
  const session = await client.session.create({
    harness: HARNESS,
    resume: ended.id,
    provider,
    model,
    ...generation,
    ...(bypass ? { bypass } : {}),
  });
  const style = createStyle(context.stderr, context.env);
  context.stderr.write(style.dim(`session ${ended.id} had ended; it goes on as ${session.id}\n`));
  return session;
}

function projectFolder(context: CliContext, project?: string): string {
  const folder = resolve(context.cwd, project ?? '.');
  try {
    return realpathSync(folder);
  } catch {
    return folder; // Not on this machine: a project is a name as far as memories go.
  }
}

/** All of stdin, up to what a prompt may hold. */
async function readPrompt(context: CliContext): Promise<string> {
  let text = '';
  for await (const chunk of context.stdin.setEncoding('utf8')) {
    text += chunk;
    if (text.length > PROMPT_CHARS_MAX) throw new CliExit(EXIT.usage, `a prompt holds at most ${PROMPT_CHARS_MAX} characters`);
  }
  return text;
}
