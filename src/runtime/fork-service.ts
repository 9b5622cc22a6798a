import { hash } from 'node:crypto';
import type { PayloadOf } from '../contract/catalog.ts';
import type { ParsedInputOf } from '../contract/operation.ts';
import type { Session } from '../contract/session.ts';
import type { sessionOperations } from '../contract/session-operations.ts';
import type { Signal } from '../contract/signal.ts';
import { limitOf } from '../core/caller-scope.ts';
import { newId } from '../core/clock.ts';
import { AppError, isAppError } from '../core/errors.ts';
import { mergeGeneration } from '../core/generation.ts';
import type { RequestContext } from '../core/operation-call.ts';
import { canonicalJson } from '../core/signal-seal.ts';
import { foldAt } from './fork-point.ts';
import { replacedInput } from './fork-replacement.ts';
import { sessionMachineRef } from './machine-service.ts';
import { chooseModel } from './model-choice.ts';
import type { RuntimeDeps } from './runtime-deps.ts';
import { foldSession, logTrimmed } from './session-fold.ts';
import { takeSeed } from './session-seed.ts';
import { existingSession, requireAgent } from './session-service.ts';

type Input = ParsedInputOf<(typeof sessionOperations)['forkSession']>;

/** POST /session/:id/fork. The parent is read, and told of it; nothing else of it changes. */
export async function forkSession(deps: RuntimeDeps, input: Input, context: RequestContext): Promise<Session> {
  const { id, replaceInput } = input;
  const bodyDigest = hash('sha256', canonicalJson(input), 'base64url');
  const existing = input.newId === undefined ? null : await existingSession(deps, input.newId, bodyDigest);
  if (existing) {
    context.reply.status(200);
    return existing;
  }
  const at = placeOf(input);
  const replaced = replaceInput && (await inputAt(deps, id, at));
  const draft = replaced && replacedInput(replaced, replaceInput, context.client);
  const folded = replaced ? await foldSession(deps.log, id, replaced.seq - 1) : await foldAt(deps.log, id, at);
  const parent = folded.view.session;
  const agent = input.agent ?? parent.agent;
  await requireAgent(deps, agent);
  const session = input.newId ?? newId('ses');
  const choosesModel = input.provider !== undefined || input.model !== undefined;
  const chosen = choosesModel ? chooseModel(deps, { provider: input.provider ?? parent.provider, model: input.model }) : undefined;
  const { provider, model, context: window } = parent;
  const limit = limitOf(context.caller);
  const host = await deps.supervisor.create(
    {
      session,
      key: session,
      agent,
      project: parent.project,
      title: input.title ?? parent.title,
      harness: parent.harness,
      provider,
      model,
      contextLimit: window.limit,
      ...chosen,
      ...mergeGeneration(input, parent),
      parentSession: null,
      resumedFrom: null,
      tools: folded.core.allowedTools === null ? null : [...folded.core.allowedTools],
      bypassed: parent.bypassed,
      metadata: parent.metadata,
      machine: sessionMachineRef(),
      bodyDigest,
      limits: { ...folded.core.snapshot.context.limits },
      summary: folded.core.snapshot.context.summary,
      forkedFrom: { session: id, seq: folded.core.seq },
      seed: takeSeed(folded, { session, ...chosen }),
      ...(limit ? { limit } : {}),
    },
    context.client,
    draft && [draft],
  );
  await noteFork(deps, id, { into: session, atSeq: folded.core.seq });
  return host.view.session;
}

function placeOf({ at, atSeq }: Pick<Input, 'at' | 'atSeq'>): number | undefined {
  if (at === undefined || atSeq === undefined) return at ?? atSeq;
  const detail = 'is another name of `at`; give one of both';
  throw new AppError('invalid_request', { detail: `/atSeq ${detail}`, errors: [{ pointer: '/atSeq', detail }] });
}

/** In the log of the parent too, unless that has ended and is closed. The fork stands either way. */
async function noteFork({ supervisor, logger }: RuntimeDeps, id: string, payload: PayloadOf<'session:forked'>): Promise<void> {
  try {
    const parent = await supervisor.get(id);
    await parent.handle(() => [{ name: 'session:forked', payload }]);
  } catch (error) {
    if (!isAppError(error, 'session_ended')) logger.warn({ err: error, session: id, fork: payload.into }, 'the fork could not be noted');
  }
}

async function inputAt(deps: RuntimeDeps, id: string, at: number | undefined): Promise<Signal> {
  if (at === undefined || at < 2)
    throw new AppError('invalid_request', { detail: 'replaceInput needs at: the number of the input signal it replaces' });
  const signal = (await deps.log.read(`session:${id}`, at - 1, 1))[0];
  if (signal && signal.seq > at) throw logTrimmed(id, signal.seq - 1);
  // What a session was upgraded with is a whole state of the machine, not something that was said to it.
  if (signal?.source.kind === 'input' && signal.name !== 'session:upgraded') return signal;
  const found = signal ? `a ${signal.source.kind} signal (${signal.name})` : 'not there';
  throw new AppError('invalid_request', {
    detail: `signal ${at} is ${found}; only inputs other than session:upgraded can be replaced`,
    errors: [{ pointer: '/at', detail: 'must be an input signal' }],
  });
}
