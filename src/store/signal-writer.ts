import { parentPort, workerData } from 'node:worker_threads';
import { openHighWaterMark } from './high-water-mark.ts';
import type { WriterData, WriterReply, WriterRequest } from './signal-log-protocol.ts';
import { SIGNAL_LOG_MIGRATIONS } from './signal-log-schema.ts';
import { BatchWriter, failureOf } from './signal-writer-batch.ts';
import { closeDatabase, openDatabase } from './sqlite.ts';

/** Pages the WAL collects before a commit moves them into the file (16 MB): fewer fsyncs than the default of 1,000. */
const WAL_CHECKPOINT_PAGES = 4_000;
/** A WAL that a long reader made larger is cut back to this; unit: bytes. */
const WAL_BYTES_MAX = 64 * 1024 * 1024;

if (!parentPort) throw new Error('signal-writer runs as a worker thread of the signal log');
const port = parentPort;
const reply = (message: WriterReply): void => port.postMessage(message);

try {
  startWriter(workerData as WriterData);
} catch (error) {
  reply({ refused: failureOf(error, (workerData as WriterData).path) });
  port.close();
}

/** Open the log for writing and answer batches until `close`. */
function startWriter({ path, synchronous, bytesMax }: WriterData): void {
  const db = openDatabase(path, { synchronous, migrations: SIGNAL_LOG_MIGRATIONS });
  db.exec(`PRAGMA wal_autocheckpoint = ${WAL_CHECKPOINT_PAGES}; PRAGMA journal_size_limit = ${WAL_BYTES_MAX}`);
  db.exec('PRAGMA secure_delete = ON'); // A purged session is overwritten, not only unlinked.
  if (bytesMax !== undefined) {
    const pageBytes = Number(db.prepare('PRAGMA page_size').get()?.page_size);
    db.exec(`PRAGMA max_page_count = ${Math.max(1, Math.floor(bytesMax / pageBytes))}`);
  }
  const writer = new BatchWriter(db, path);
  const mark = openHighWaterMark({ path, unit: 'signals', mayLosePower: synchronous === 'NORMAL' }, writer.head);
  port.on('message', (request: WriterRequest) => {
    if (request !== 'close') {
      const results = writer.run(request.batch);
      mark.note(writer.head);
      return reply({ results });
    }
    closeDatabase(db);
    mark.close();
    reply('closed');
    port.close();
  });
  reply({ ready: mark.finding });
}
