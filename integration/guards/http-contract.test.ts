import { describeGuard } from '@lockkeeper/resource-guard/contract';
import { httpGuard, verifiedGuard } from '@lockkeeper/resource-guard/http';
import { memoryGuard } from '@lockkeeper/resource-guard/memory';
import { type PostgresServer, startPostgres } from '@lockkeeper/testkit';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { Bank } from './account.ts';
import { type AccountService, accountOverHttp, startAccountService } from './http-service.ts';

let server: PostgresServer;
let bank: Bank;
let services: [AccountService, AccountService];

beforeAll(async () => {
  server = await startPostgres();
  bank = await Bank.open(server.url);
  services = [await startAccountService(bank.newPool()), await startAccountService(bank.newPool())];
});
afterAll(async () => {
  for (const service of services ?? []) await service[Symbol.asyncDispose]();
  await bank?.[Symbol.asyncDispose]();
  await server?.stop();
});

describeGuard(
  {
    name: 'a guarded service, in two processes over one PostgreSQL',
    open: async () => {
      const resource = await bank.newAccount();
      const at = ({ url }: AccountService) =>
        httpGuard(`${url}${encodeURIComponent(resource)}`, { resource });
      const guards = { guard: at(services[0]), other: at(services[1]) };
      return bank.fixture(resource, guards, accountOverHttp, async () => {});
    },
    // Each request of an effect is a step of its own.
    lacks: ['rollback'],
  },
  { describe, it },
);

describeGuard(
  {
    name: 'memory, behind a verifier that knows every token',
    open: async () => {
      const guard = verifiedGuard(memoryGuard({ resource: 'r' }), async () => {});
      let value = '';
      return {
        guard,
        other: guard,
        value: {
          read: async () => value,
          write: async (_handle: undefined, next: string) => {
            value = next;
          },
          peek: async () => value,
        },
      };
    },
    lacks: ['rollback', 'held-writes'],
  },
  { describe, it },
);
