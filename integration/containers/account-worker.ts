// Holds a lock for as long as it is told to, and writes when it is told to, whatever has become of its hold.

import { connect, type Hold } from '@lockkeeper/core';
import { GuardError } from '@lockkeeper/fencing';
import { postgresGuard } from '@lockkeeper/resource-guard/postgres';
import { workerChannel } from '@lockkeeper/testkit/worker';
import { Pool } from 'pg';

export type AccountSays =
  | { readonly type: 'acquired' | 'lost' | 'released' }
  | { readonly type: 'wrote'; readonly outcome: string };
export type AccountIsTold =
  | { readonly type: 'acquire' | 'release' }
  | { readonly type: 'write'; readonly entry: string; readonly guarded: boolean };

const [hosts = '', database] = process.argv.slice(2);
const { report, onCommand } = workerChannel<AccountSays, AccountIsTold>();
const keeper = await connect({ hosts, ttlMs: 2_000 });
const pool = new Pool({ connectionString: database });
const guard = postgresGuard(pool, { resource: 'account' });
let hold: Hold;

async function write(entry: string, guarded: boolean): Promise<string> {
  const sql = 'UPDATE account SET entries = entries || $1';
  try {
    if (guarded) await guard.run(hold.token, (tx) => tx.query(sql, [entry]));
    else await pool.query(sql, [entry]);
    return 'accepted';
  } catch (error) {
    if (error instanceof GuardError) return error.code;
    throw error;
  }
}

onCommand(async (told) => {
  if (told.type === 'write') {
    await report({ type: 'wrote', outcome: await write(told.entry, told.guarded) });
  } else if (told.type === 'acquire') {
    hold = await keeper.lock('account').acquire({ claims: [guard], waitTimeoutMs: 30_000 });
    hold.signal.addEventListener('abort', () => report({ type: 'lost' }));
    await report({ type: 'acquired' });
  } else {
    await hold.release();
    await report({ type: 'released' });
  }
});
