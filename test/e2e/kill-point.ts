/**
 * Loaded into a daemon by `node --import`: ends the process, as kill -9 does, at one boundary of its signal log. Each batch of appends has two:
 * before it leaves for the writer's thread (nothing of it is written), and after its commit, before anybody in the process hears of it.
 * KILL_AT_BOUNDARY counts them from 1; KILL_AT_SIGNAL takes the boundary of the first batch with a signal of that name, before it is written or,
 * with KILL_AFTER set, behind its commit; without either, or when the process ends before, the number of boundaries is printed at the exit.
 */
import { isMainThread, Worker } from 'node:worker_threads';

const WRITER = 'signal-writer';
const killAt = Number(process.env.KILL_AT_BOUNDARY ?? 0);
const killSignal = process.env.KILL_AT_SIGNAL;
let boundaries = 0;
let isReached = false;

function pass(isHere = false): void {
  boundaries += 1;
  if (boundaries === killAt || isHere) process.kill(process.pid, 'SIGKILL');
}

function isOf(thread: Worker, message: unknown, member: string): boolean {
  return thread.threadName === WRITER && typeof message === 'object' && message !== null && member in message;
}

const { postMessage, emit } = Worker.prototype;

Worker.prototype.postMessage = function (this: Worker, ...message: Parameters<typeof postMessage>) {
  if (isOf(this, message[0], 'batch')) {
    isReached ||= killSignal !== undefined && JSON.stringify(message[0]).includes(killSignal);
    pass(isReached && !process.env.KILL_AFTER);
  }
  return postMessage.apply(this, message);
};

Worker.prototype.emit = function (this: Worker, ...event: Parameters<typeof emit>) {
  if (event[0] === 'message' && isOf(this, event[1], 'results')) pass(isReached);
  return emit.apply(this, event);
} as typeof emit;

// Threads of the process load this too.
if (isMainThread) process.once('exit', () => process.stdout.write(`boundaries: ${boundaries}\n`));
