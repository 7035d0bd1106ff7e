import { describeGuard } from '@lockkeeper/resource-guard/contract';
import { type MysqlGuard, type MysqlTransaction, mysqlGuard } from '@lockkeeper/resource-guard/mysql';
import { type MariadbServer, startMariadb } from '@lockkeeper/testkit';
import type { Pool } from 'mysql2/promise';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { MysqlBank, rowAccess } from './mysql-bank.ts';

let server: MariadbServer;
let bank: MysqlBank;
let pools: [Pool, Pool];

beforeAll(async () => {
  server = await startMariadb();
  bank = await MysqlBank.open(server.url);
  pools = [bank.newPool(), bank.newPool()];
});
afterAll(async () => {
  await bank?.[Symbol.asyncDispose]();
  await server?.stop();
});

type Guards = [MysqlGuard, MysqlGuard];

const observed = (name: string) => ({
  peek: () => bank.peek(name),
  holdWrites: () => bank.holdWrites(name),
});

// MySQL's way of speaking is understood by MariaDB too. With MYSQL_URL set to a MySQL, both are that.
for (const dialect of [undefined, 'mysql'] as const) {
  describeGuard<MysqlTransaction>(
    {
      name: `MariaDB spoken to as ${dialect ?? 'what it says it is'}, a pool each`,
      open: async () => {
        const resource = await bank.newAccount();
        const [guard, other] = pools.map((pool) => mysqlGuard(pool, { resource, dialect })) as Guards;
        return { guard, other, value: { ...rowAccess(resource), ...observed(resource) } };
      },
    },
    { describe, it },
  );
}

describeGuard<MysqlTransaction>(
  {
    name: 'MariaDB, a single connection each',
    open: async () => {
      const resource = await bank.newAccount();
      const connections = [await bank.newConnection(), await bank.newConnection()];
      const [guard, other] = connections.map((each) => mysqlGuard(each, { resource })) as Guards;
      return {
        guard,
        other,
        value: { ...rowAccess(resource), ...observed(resource) },
        close: async () => {
          await Promise.all(connections.map((each) => each.end()));
        },
      };
    },
    lacks: ['overlap'],
  },
  { describe, it },
);
