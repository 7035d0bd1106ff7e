import type { PostgresServer } from '@lockkeeper/testkit';
import { Client } from 'pg';
import { type Contestant, inPairs } from './contestant.ts';

/** They belong to a connection, so one client means one connection. */
export async function advisoryLocks(postgres: PostgresServer): Promise<Contestant> {
  const client = new Client(postgres.url);
  await client.connect();
  // It queues them itself as well, but warns of it.
  let last: Promise<unknown> = Promise.resolve();
  const query = (name: string, text: string, worker: number) => {
    last = last.then(() => client.query({ name, text, values: [worker] }));
    return last;
  };
  return {
    server: `PostgreSQL ${postgres.version}`,
    run: inPairs(async (worker) => {
      await query('lock', 'SELECT pg_advisory_lock($1)', worker);
      await query('unlock', 'SELECT pg_advisory_unlock($1)', worker);
    }),
    [Symbol.asyncDispose]: async () => {
      await client.end();
      await postgres.stop();
    },
  };
}
