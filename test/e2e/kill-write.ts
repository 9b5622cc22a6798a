/**
 * Loaded into a daemon by `node --import`: ends the process, as kill -9 does, when a row has been written to a database and its transaction is
 * still open: the first one that holds the text KILL_AT_TEXT, or the KILL_AT_NUMBER-th by a statement that holds KILL_AT_SQL.
 */
import { StatementSync } from 'node:sqlite';

const text = process.env.KILL_AT_TEXT;
const sql = process.env.KILL_AT_SQL;
const number = Number(process.env.KILL_AT_NUMBER ?? 1);
let times = 0;
const { run } = StatementSync.prototype;

StatementSync.prototype.run = function (this: StatementSync, ...values: never[]) {
  const changes = (run as (...values: never[]) => ReturnType<typeof run>).apply(this, values);
  if (sql !== undefined && this.sourceSQL.includes(sql)) times += 1;
  const holdsText = text !== undefined && values.some((value) => typeof value === 'string' && (value as string).includes(text));
  if (holdsText || times === number) process.kill(process.pid, 'SIGKILL');
  return changes;
};
