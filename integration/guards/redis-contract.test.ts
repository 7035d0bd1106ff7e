import { describeGuard } from '@lockkeeper/resource-guard/contract';
import type { RedisClient } from '@lockkeeper/resource-guard/redis';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { Vault } from './redis-vault.ts';

let single: Vault;
let cluster: Vault;
let clients: Record<'ioredis' | 'node-redis' | 'a cluster client of each', [RedisClient, RedisClient]>;

beforeAll(async () => {
  [single, cluster] = await Promise.all([Vault.open(), Vault.openCluster()]);
  clients = {
    ioredis: [single.ioredis(), single.ioredis({ enableAutoPipelining: true })],
    'node-redis': [await single.nodeRedis(), await single.nodeRedis(undefined, { RESP: 3 })],
    'a cluster client of each': [cluster.ioredisCluster(), await cluster.nodeRedisCluster()],
  };
});
afterAll(async () => {
  await single?.[Symbol.asyncDispose]();
  await cluster?.[Symbol.asyncDispose]();
});

for (const name of ['ioredis', 'node-redis', 'a cluster client of each'] as const) {
  describeGuard(
    {
      name: `Redis, ${name}`,
      open: () => (name === 'a cluster client of each' ? cluster : single).fixture(clients[name]),
    },
    { describe, it },
  );
}
