import { afterEach, expect, test } from 'vitest';
import { call } from '../conformance/calls.ts';
import { tempFolder } from '../helpers/daemon-fixture.ts';
import { answerJobs, jobKindOf } from '../helpers/job-model.ts';
import { type ModelServer, startModelServer } from '../helpers/model-server/server.ts';
import { type SignetProcess, startSignetProcess } from '../helpers/signet.ts';
import { wireEnvironment } from './rig.ts';

const DONE_TIMEOUT_MS = 25_000;
const POLL_MS = 20;
const YAML = 'memory:\n  extraction: { delayMs: 0 }\n  synthesis: { schedule: on-demand }\n';

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function startModel(): Promise<ModelServer> {
  const model = await startModelServer();
  closers.push(() => model.close());
  return model;
}

async function start(folder: string, model: ModelServer): Promise<SignetProcess> {
  const signet = await startSignetProcess({ folder, yaml: YAML, env: wireEnvironment('chat', model.url) });
  closers.push(() => signet.close());
  return signet;
}

async function extraction(signet: SignetProcess, state: string) {
  const deadline = performance.now() + DONE_TIMEOUT_MS;
  for (;;) {
    const { jobs } = (await call('GET', `${signet.daemonUrl}/api/jobs?kind=extraction`)).body;
    if (jobs[0]?.state === state) return jobs[0];
    if (performance.now() > deadline) throw new Error(`the job did not come to be ${state}: ${JSON.stringify(jobs)}`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

const memories = async (signet: SignetProcess): Promise<string[]> => {
  const { body } = await call('POST', `${signet.daemonUrl}/api/memory/recall`, { query: 'violin tuned to 442 hertz' });
  return body.results.map((memory: { content: string }) => memory.content);
};

test('a job that runs when the process is killed is leased in the file, runs again in the next process, and is done once', async () => {
  const folder = tempFolder();
  const model = await startModel();
  const facts = [{ action: 'ADD', content: 'The violin is tuned to 442 hertz.' }];
  model.gate();
  const first = await start(folder, model);
  const transcript = [{ role: 'user', content: 'My violin is tuned to 442 hertz.' }];
  const ended = await call('POST', `${first.daemonUrl}/api/hooks/session-end`, { harness: 'h', sessionKey: 'violin', transcript });
  expect(jobKindOf((await model.next()).request)).toBe('extraction');
  const leased = await extraction(first, 'running');
  expect(leased).toMatchObject({ id: ended.body.jobId, attempts: 1 });
  expect(Date.parse(leased.leaseUntil)).toBeGreaterThan(Date.now());
  await first.kill();

  model.open();
  answerJobs(model, { extraction: () => ({ summary: 'The violin was tuned.', facts }) });
  const second = await start(folder, model);
  expect(await extraction(second, 'done')).toMatchObject({ id: ended.body.jobId, attempts: 1, payload: { from: 1, to: 1 } });
  expect(await memories(second)).toEqual(['The violin is tuned to 442 hertz.']);
  expect((await call('GET', `${second.daemonUrl}/api/sessions/violin/transcript`)).body).toMatchObject({ total: 1, turns: transcript });
  expect((await call('GET', `${second.daemonUrl}/api/sessions/summaries`)).body.total).toBe(1);
});

test('a stop gives the job back without counting the attempt', async () => {
  const folder = tempFolder();
  const model = await startModel();
  model.gate();
  const first = await start(folder, model);
  const transcript = [{ role: 'user', content: 'The cello is out of tune.' }];
  await call('POST', `${first.daemonUrl}/api/hooks/session-end`, { harness: 'h', sessionKey: 'cello', transcript });
  const held = await model.next();
  await first.close();
  expect((await held.request.closed).aborted).toBe(true);

  model.open();
  answerJobs(model, {});
  const second = await start(folder, model);
  expect(await extraction(second, 'done')).toMatchObject({ attempts: 1 });
});
