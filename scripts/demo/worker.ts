// The process of A, or of B: connects, and adds the entries that the parent orders.
import { connect, type Lock } from '@lockkeeper/core';
import { postgresGuard } from '@lockkeeper/resource-guard/postgres';
import { reportFromWorker } from '@lockkeeper/testkit';
import { Pool } from 'pg';
import { AccountTable } from './account.ts';
import { addEntry } from './add-entry.ts';
import type { Fact } from './story.ts';
import { BEFORE_WRITE, type Order, type Setting } from './worker-orders.ts';

const channel = reportFromWorker();
const setting = JSON.parse(process.argv[2] ?? '') as Setting;
const { who, schema } = setting;

const pool = new Pool({ connectionString: setting.postgresUrl });
// What a query meets is the query's to tell. This is a connection that broke while nobody used it.
pool.on('error', (error) => process.stderr.write(`${who}: an idle connection broke: ${error.message}\n`));
const keeper = await connect({
  hosts: setting.etcdEndpoint,
  namespace: setting.namespace,
  ttlMs: setting.ttlMs,
  identity: who,
});
const accounts = new AccountTable(pool, schema);

/** The first attempt is interfered with as ordered; nothing is sent to a storage in between. */
async function beforeWrite(order: Order): Promise<void> {
  if (order.hindrance === 'pause') await channel.freezeHere(BEFORE_WRITE);
  else if (order.hindrance === 'outage') await channel.pauseHere(BEFORE_WRITE);
}

async function work(order: Order): Promise<void> {
  const guard = order.guarded ? postgresGuard(pool, { resource: order.account, schema }) : undefined;
  const lock: Lock = keeper.lock(order.account);
  await addEntry(order.entry, {
    who,
    lock,
    account: accounts.account(order.account, guard),
    report: (fact: Fact) => void channel.report({ type: 'fact', fact }),
    beforeWrite: () => beforeWrite(order),
  });
  await channel.report({ type: 'done' });
}

const commands = channel.onCommand(async (command) => {
  if (command.type === 'add-entry') return work(command['order'] as Order);
  await keeper.close();
  await pool.end();
  await channel.report({ type: 'closed' });
  commands[Symbol.dispose]();
});

await channel.report({ type: 'ready' });
