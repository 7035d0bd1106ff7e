// One connection; ioredis writes commands without waiting for replies.
import type { RedisServer } from '@lockkeeper/testkit';
import { Redis } from 'ioredis';
import Redlock from 'redlock';
import { type Contestant, inPairs, TTL_MS } from './contestant.ts';

/** The npm package, by its settings. Its last release is a beta; the one tagged `latest` is older. */
export function redlock(redis: RedisServer): Contestant {
  return contestant(redis, (client) => {
    const locks = new Redlock([client]);
    return async (worker) => {
      const lock = await locks.acquire([`name-${worker}`], TTL_MS);
      await lock.release();
    };
  });
}

/** Deletes the key only if it is ours. */
const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;

/** Redlock's algorithm where there is one Redis, without a package's own cost. */
export function setAndScript(redis: RedisServer): Contestant {
  return contestant(redis, (client) => {
    client.defineCommand('unlock', { numberOfKeys: 1, lua: RELEASE });
    const { unlock } = client as unknown as { unlock(key: string, value: string): Promise<number> };
    let values = 0;
    return async (worker) => {
      const [key, value] = [`name-${worker}`, `${process.pid}-${++values}`];
      if ((await client.set(key, value, 'PX', TTL_MS, 'NX')) !== 'OK') throw new Error(`${key} was not free`);
      if ((await unlock.call(client, key, value)) !== 1) throw new Error(`${key} was not ours`);
    };
  });
}

function contestant(
  redis: RedisServer,
  pairOf: (client: Redis) => (worker: number) => Promise<unknown>,
): Contestant {
  const client = new Redis(redis.url);
  return {
    server: `Redis ${redis.version}`,
    run: inPairs(pairOf(client)),
    [Symbol.asyncDispose]: async () => {
      client.disconnect();
      await redis.stop();
    },
  };
}
