// The process of A, or of B: connects, and adds the entries that the parent orders.
import { connect, type Lock } from '@lockkeeper/core';
import { postgresGuard } from '@lockkeeper/resource-guard/postgres';
import { pausePoint, workerChannel } from '@lockkeeper/testkit/worker';
import { Pool } from 'pg';
import { AccountTable } from './account.ts';
import { addEntry } from './add-entry.ts';
import type { Fact } from './story.ts';
import { BEFORE_WRITE, type Command, type Message, type Order, type Setting } from './worker-orders.ts';

const channel = workerChannel<Message, Command>();
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

async function work(order: Order): Promise<void> {
  const guard = order.guarded ? postgresGuard(pool, { resource: order.account, schema }) : undefined;
  const lock: Lock = keeper.lock(order.account);
  await addEntry(order.entry, {
    who,
    lock,
    account: accounts.account(order.account, guard),
    report: (fact: Fact) => void channel.report({ type: 'fact', fact }),
    beforeWrite: () => pausePoint(BEFORE_WRITE),
  });
  await channel.report({ type: 'done' });
}

const commands = channel.onCommand(async (command) => {
  if (command.type === 'add-entry') return work(command.order);
  await keeper.close();
  await pool.end();
  await channel.report({ type: 'closed' });
  commands[Symbol.dispose]();
});

await channel.report({ type: 'ready' });
