import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { parentPort, workerData } from 'node:worker_threads';
import type { CheckpointData, CheckpointReply, CheckpointRequest } from './memory-checkpoint.ts';

if (!parentPort) throw new Error('memory-checkpoint-worker runs as a worker thread of the memory store');
const port = parentPort;

/** Not made when it is not there: the store may have been closed and removed meanwhile. */
const db = new DatabaseSync(`${pathToFileURL((workerData as CheckpointData).path).href}?mode=rw`);
db.exec('PRAGMA synchronous = NORMAL');
const checkpoint = db.prepare('PRAGMA wal_checkpoint(PASSIVE)');

port.on('message', (request: CheckpointRequest) => {
  if (request === 'checkpoint') {
    port.postMessage({ pages: Number(checkpoint.get()?.log) } satisfies CheckpointReply);
    return;
  }
  db.close();
  port.close();
});
