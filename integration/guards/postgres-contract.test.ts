import { describeGuard } from '@lockkeeper/resource-guard/contract';
import { postgresGuard } from '@lockkeeper/resource-guard/postgres';
import { type PostgresServer, startPostgres } from '@lockkeeper/testkit';
import type pg from 'pg';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { accountAccess, Bank } from './account.ts';

let server: PostgresServer;
let bank: Bank;
let pools: [pg.Pool, pg.Pool];

beforeAll(async () => {
  server = await startPostgres();
  bank = await Bank.open(server.url);
  pools = [bank.newPool(), bank.newPool()];
});
afterAll(async () => {
  await bank?.[Symbol.asyncDispose]();
  await server?.stop();
});

describeGuard(
  {
    name: 'PostgreSQL, a pool each',
    open: async () => {
      const resource = await bank.newAccount();
      const [guard, other] = pools.map((pool) => postgresGuard(pool, { resource })) as [Guard, Guard];
      return bank.fixture(resource, { guard, other }, accountAccess(resource), async () => {});
    },
  },
  { describe, it },
);

describeGuard(
  {
    name: 'PostgreSQL, a single client each',
    open: async () => {
      const resource = await bank.newAccount();
      const clients = [bank.newClient(), bank.newClient()];
      await Promise.all(clients.map((client) => client.connect()));
      const [guard, other] = clients.map((client) => postgresGuard(client, { resource })) as [Guard, Guard];
      return bank.fixture(resource, { guard, other }, accountAccess(resource), async () => {
        await Promise.all(clients.map((client) => client.end()));
      });
    },
    lacks: ['overlap'],
  },
  { describe, it },
);

type Guard = ReturnType<typeof postgresGuard>;
