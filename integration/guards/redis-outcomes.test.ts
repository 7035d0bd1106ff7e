// The outcomes on Redis, D6: applied, certainly not applied, unknown. Unknown is never called stale, and what a
// client sends again after it reconnected is carried out once.
import { FencingToken } from '@lockkeeper/fencing';
import { type RedisClient, type RedisGuard, redisGuard } from '@lockkeeper/resource-guard/redis';
import { chunkContaining, startTcpProxy, type TcpProxy } from '@lockkeeper/testkit';
import type { RedisOptions } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { newName, until, Vault } from './redis-vault.ts';

let vault: Vault;
let proxy: TcpProxy;

beforeAll(async () => {
  vault = await Vault.open();
  proxy = await startTcpProxy(vault.server.url);
});
afterEach(() => proxy.restore());
afterAll(async () => {
  await proxy?.[Symbol.asyncDispose]();
  await vault?.[Symbol.asyncDispose]();
});

const token = (revision: bigint) =>
  new FencingToken({ lineage: 'main', revision, acquisition: `a${revision}` });
const OLD = token(1n);
const NEW = token(2n);

let resource: string;
let counter: string;
/** Past the proxy. */
let direct: RedisGuard;

beforeEach(async () => {
  resource = newName();
  direct = redisGuard(vault.admin, { resource });
  await direct.create();
  await direct.claim(OLD);
  counter = direct.key('counter');
});

const count = async () => Number(await vault.admin.get(counter));
const increment = (guard: RedisGuard, as = OLD) => guard.run(as, (tx) => tx.command('INCR', counter));
/** A guard on a client of its own through the proxy, which knows OLD already: its runs are one script each. */
async function through(client: RedisClient, options: { timeoutMs?: number } = {}): Promise<RedisGuard> {
  const guard = redisGuard(client, { resource, ...options });
  await guard.claim(OLD);
  return guard;
}
const viaIoredis = (options: RedisOptions = {}) =>
  through(vault.ioredis({ retryStrategy: () => 5, ...options }, proxy.url));
const viaNodeRedis = async () => through(await vault.nodeRedis(proxy.url));

type Loss = 'reply' | 'request';

/**
 * The next script is the last on its connection. `reply`: the server gets it, the client gets the end of the
 * connection instead of the answer. `request`: the server does not get it.
 */
async function lose(what: Loss): Promise<void> {
  const match = chunkContaining('evalsha');
  const caught =
    what === 'reply' ? proxy.loseReply({ match }).lost : proxy.hold({ direction: 'request', match }).held;
  await caught;
}

describe('ioredis sends again what it got no answer to', () => {
  it.each(['reply', 'request'] as const)('once: the %s was lost', async (what) => {
    const guard = await viaIoredis();
    const lost = lose(what).then(() => proxy.cut());
    const reply = await increment(guard);
    await lost;
    expect(await count()).toBe(1);
    if (what === 'request') expect(reply.value).toBe(1);
    else expect(() => reply.value).toThrow(/the reply was lost/);
    expect((await increment(guard)).value).toBe(2);
  });

  it('once each, with 40 runs in flight', async () => {
    const guard = await viaIoredis();
    const lost = lose('reply').then(() => proxy.cut());
    await Promise.all(Array.from({ length: 40 }, () => increment(guard)));
    await lost;
    expect(await count()).toBe(40);
  });

  it.each(['reply', 'request'] as const)('after a newer claim too: the %s was lost', async (what) => {
    const guard = await viaIoredis();
    const caught = lose(what);
    const run = increment(guard);
    await caught;
    const refusing = proxy.refuse();
    proxy.cut();
    await direct.claim(NEW);
    refusing.restore();
    if (what === 'reply') await run;
    else await expect(run).rejects.toMatchObject({ code: 'stale-token', current: NEW });
    expect(await count()).toBe(what === 'reply' ? 1 : 0);
  });

  it('is unknown where the answer to a copy is an error', async () => {
    const guard = await viaIoredis();
    const caught = lose('reply');
    const run = increment(guard);
    await caught;
    const refusing = proxy.refuse();
    proxy.cut();
    await vault.admin.call('REPLICAOF', ['127.0.0.1', '1']);
    try {
      refusing.restore();
      await expect(run).rejects.toMatchObject({ code: 'unknown', outcome: 'unknown' });
    } finally {
      await vault.admin.call('REPLICAOF', ['NO', 'ONE']);
    }
    expect(await count()).toBe(1);
  });

  it('knows a copy of a run that failed half-way', async () => {
    const guard = await viaIoredis();
    const list = guard.key('list');
    await vault.admin.lpush(list, 'x');
    const lost = lose('reply').then(() => proxy.cut());
    const run = guard.run(OLD, (tx) => {
      tx.command('INCR', counter);
      tx.command('INCR', list);
    });
    await expect(run).rejects.toMatchObject({
      code: 'unknown',
      message: /sent it again after it had failed/,
    });
    await lost;
    expect(await count()).toBe(1);
  });

  describe('and never takes a run that was refused for one that was carried out', () => {
    /** `first` is refused, `second` carried out, both replies are lost, and both are sent again. */
    async function refusedBetween(
      guard: RedisGuard,
      { as, refuse, first }: { as: FencingToken; refuse: () => Promise<unknown>; first: () => unknown },
    ): Promise<void> {
      const arrived = () =>
        until(async () => (await vault.admin.info('commandstats')).includes('cmdstat_evalsha:calls=1,'));
      await increment(guard, as);
      await refuse();
      await vault.admin.config('RESETSTAT');
      const hole = proxy.blackhole('reply');
      first();
      await arrived();
      await vault.admin.config('SET', 'maxmemory', '0');
      // Brings the script back.
      await direct.inspect();
      await vault.admin.config('RESETSTAT');
      const second = increment(guard, as);
      await arrived();
      proxy.cut();
      hole.restore();
      await second;
    }

    it.each([
      ['out of memory', () => vault.admin.config('SET', 'maxmemory', '1')],
      ['the server forgot the script', () => vault.admin.script('FLUSH')],
    ])('because of the server: %s', async (_, refuse) => {
      const guard = await viaIoredis();
      const stale = guard.key('refused');
      let refused: Promise<unknown> | undefined;
      const first = () => {
        refused = guard.run(OLD, (tx) => tx.set(stale, 'x'));
        refused.catch(() => undefined);
      };
      await refusedBetween(guard, { as: OLD, refuse, first });
      await expect(refused).rejects.toMatchObject({ code: 'unknown' });
      expect([await vault.admin.get(stale), await count()]).toEqual([null, 2]);
      // From here on it knows again.
      const lost = lose('reply').then(() => proxy.cut());
      await increment(guard);
      await lost;
      expect(await count()).toBe(3);
    });

    it('because of its token', async () => {
      const guard = await viaIoredis();
      const stale = guard.key('refused');
      let goOn = () => {};
      const paused = new Promise<void>((resolve) => {
        goOn = resolve;
      });
      const late = guard.run(OLD, async (tx) => {
        await paused;
        tx.set(stale, 'late');
      });
      late.catch(() => undefined);
      await guard.claim(NEW);
      await refusedBetween(guard, { as: NEW, refuse: async () => undefined, first: goOn });
      await expect(late).rejects.toMatchObject({ code: 'unknown' });
      expect([await vault.admin.get(stale), await count()]).toEqual([null, 2]);
    });
  });

  it('is unknown, not stale, where the record had to forget who wrote', async () => {
    const guard = await viaIoredis();
    const many = Object.fromEntries(Array.from({ length: 70 }, (_, index) => [`w:${index}`, `${OLD};1;1`]));
    await vault.admin.hset(guard.recordKey, many);
    const caught = lose('reply');
    const run = increment(guard);
    await caught;
    const refusing = proxy.refuse();
    proxy.cut();
    await direct.claim(NEW);
    await direct.claim(token(3n));
    refusing.restore();
    await expect(run).rejects.toMatchObject({ code: 'unknown', cause: { code: 'stale-token' } });
    expect(await count()).toBe(1);
    await expect(increment(guard)).rejects.toMatchObject({ code: 'stale-token' });
  });

  it('also where the first copy is still on its way when the second one was carried out', async () => {
    const guard = await viaIoredis();
    const held = proxy.hold({ direction: 'request', match: chunkContaining('evalsha') });
    const controller = new AbortController();
    const given = guard.run(OLD, (tx) => tx.command('INCR', counter), { signal: controller.signal });
    await held.held;
    controller.abort(new Error('enough'));
    await expect(given).rejects.toMatchObject({ code: 'unknown' });
    proxy.cut({ side: 'client' });
    // Behind what the client sends again, on its next connection.
    expect((await increment(guard)).value).toBe(2);
    await vault.admin.config('RESETSTAT');
    await held.release();
    await until(async () => /cmdstat_evalsha:calls=1,/.test(await vault.admin.info('commandstats')));
    expect(await count()).toBe(2);
  });
});

describe('a lost reply is unknown', () => {
  const clients: Record<string, () => Promise<RedisGuard>> = {
    'node-redis': viaNodeRedis,
    'ioredis without resends': () => viaIoredis({ autoResendUnfulfilledCommands: false }),
    'ioredis without retries': () => viaIoredis({ maxRetriesPerRequest: 0 }),
  };

  it.each(Object.entries(clients))('of a run: %s', async (_, open) => {
    for (const what of ['reply', 'request'] as const) {
      const guard = await open();
      const before = await count();
      const lost = lose(what).then(() => proxy.cut());
      await expect(increment(guard)).rejects.toMatchObject({
        code: 'unknown',
        outcome: 'unknown',
        token: OLD,
      });
      await lost;
      expect(await count()).toBe(before + (what === 'reply' ? 1 : 0));
    }
  });

  it('of a claim; claiming again settles it', async () => {
    for (const what of ['reply', 'request'] as const) {
      const guard = await viaNodeRedis();
      const next = token(what === 'reply' ? 2n : 3n);
      const lost = lose(what).then(() => proxy.cut());
      await expect(guard.claim(next)).rejects.toMatchObject({ code: 'unknown' });
      await lost;
      await guard.claim(next);
      await expect(direct.run(OLD, () => 0)).rejects.toMatchObject({ code: 'stale-token', current: next });
      resource = newName();
      direct = redisGuard(vault.admin, { resource });
      await direct.create();
    }
  });

  it('of the entry before an effect means that the effect did not run', async () => {
    const guard = await viaNodeRedis();
    let effects = 0;
    const lost = lose('reply').then(() => proxy.cut());
    const run = guard.run(NEW, () => {
      effects += 1;
    });
    await expect(run).rejects.toMatchObject({ code: 'unavailable', outcome: 'failed' });
    await lost;
    expect(effects).toBe(0);
  });

  it.each(['ioredis', 'node-redis'])('where none comes within timeoutMs: %s', async (driver) => {
    const client = driver === 'ioredis' ? vault.ioredis({}, proxy.url) : await vault.nodeRedis(proxy.url);
    await through(client);
    const guard = await through(client, { timeoutMs: 3_000 });
    const hole = proxy.blackhole('reply');
    await expect(increment(guard)).rejects.toMatchObject({
      code: 'unknown',
      message: /no reply within 3000 ms/,
    });
    hole.restore();
    expect(await count()).toBe(1);
  });

  it('where the signal aborts after it was sent, and the reason where it had not been', async () => {
    const guard = await viaNodeRedis();
    const controller = new AbortController();
    const reason = new Error('enough');
    const held = proxy.hold({ direction: 'request', match: chunkContaining('evalsha') });
    const run = guard.run(OLD, (tx) => tx.command('INCR', counter), { signal: controller.signal });
    await held.held;
    controller.abort(reason);
    await expect(run).rejects.toMatchObject({ code: 'unknown', cause: reason });
    await held.release();
    await until(async () => (await count()) === 1);
    const during = new AbortController();
    const early = guard.run(
      OLD,
      (tx) => {
        tx.command('INCR', counter);
        during.abort(reason);
        return new Promise(() => undefined);
      },
      { signal: during.signal },
    );
    await expect(early).rejects.toBe(reason);
    expect(await count()).toBe(1);
  });
});

describe('certainly not applied', () => {
  it('where there is no connection', async () => {
    const nowhere = vault.ioredis({ lazyConnect: true }, 'redis://127.0.0.1:1');
    await expect(redisGuard(nowhere, { resource, timeoutMs: 100 }).claim(OLD)).rejects.toMatchObject({
      code: 'unavailable',
      message: /no connection within timeoutMs 100; nothing was sent/,
    });
    const ended = vault.ioredis();
    await ended.quit();
    const closed = await vault.nodeRedis();
    await closed.close();
    for (const client of [ended, closed]) {
      const guard = redisGuard(client, { resource });
      await expect(guard.claim(OLD)).rejects.toMatchObject({ code: 'unavailable', message: /closed/ });
    }
  });

  it('while node-redis reconnects; it goes on by itself', async () => {
    const guard = await viaNodeRedis();
    const refusing = proxy.refuse();
    proxy.cut();
    const run = increment(guard);
    refusing.restore();
    // Depending on whether the client had noticed: sent and lost, or sent once it was back.
    const ending = await run.then(
      () => 'applied',
      (error: { code: string }) => error.code,
    );
    expect(['applied', 'unknown']).toContain(ending);
    if (ending === 'applied') expect(await count()).toBe(1);
  });

  const refusals: [string, RegExp, () => Promise<() => Promise<unknown>>][] = [
    [
      'READONLY',
      /replica, which takes no writes/,
      async () => {
        await vault.admin.call('REPLICAOF', ['127.0.0.1', '1']);
        return () => vault.admin.call('REPLICAOF', ['NO', 'ONE']);
      },
    ],
    [
      'MASTERDOWN',
      /replica that lost its primary/,
      async () => {
        await vault.admin.config('SET', 'replica-serve-stale-data', 'no');
        await vault.admin.call('REPLICAOF', ['127.0.0.1', '1']);
        return async () => {
          await vault.admin.call('REPLICAOF', ['NO', 'ONE']);
          await vault.admin.config('SET', 'replica-serve-stale-data', 'yes');
        };
      },
    ],
    [
      'OOM',
      /at its maxmemory/,
      async () => {
        await vault.admin.config('SET', 'maxmemory', '1');
        return () => vault.admin.config('SET', 'maxmemory', '0');
      },
    ],
    [
      'NOREPLICAS',
      /too few replicas/,
      async () => {
        await vault.admin.config('SET', 'min-replicas-to-write', '1');
        return () => vault.admin.config('SET', 'min-replicas-to-write', '0');
      },
    ],
    [
      'BUSY',
      /another script keeps the server busy/,
      async () => {
        await vault.admin.config('SET', 'lua-time-limit', '1');
        const other = vault.ioredis();
        const endless = other.call('EVAL', ['while true do end', '0']).catch(() => undefined);
        const isBusy = async () =>
          vault.admin.ping().then(
            () => false,
            () => true,
          );
        await until(isBusy);
        return async () => {
          await vault.admin.script('KILL');
          await endless;
        };
      },
    ],
  ];

  it.each(refusals)('where Redis says %s', async (code, words, make) => {
    const guards = [await viaIoredis(), await viaNodeRedis()];
    const undo = await make();
    try {
      for (const guard of guards) {
        const error = await increment(guard).catch((reason: unknown) => reason);
        expect(error).toMatchObject({ code: 'unavailable', outcome: 'failed', message: words });
        expect(error).toMatchObject({ cause: { message: expect.stringContaining(code) } });
      }
    } finally {
      await undo();
    }
    expect(await count()).toBe(0);
    for (const guard of guards) await increment(guard);
    expect(await count()).toBe(2);
  });

  it('where the ACL lacks a right: for the script, for the record, or for a key of the effect', async () => {
    const rules = {
      'lacks a right.*evalsha': '+@all -evalsha ~*',
      'lacks a right.*hset': '+@all -hset ~*',
      'INCR .* failed in the script and nothing was applied.*': `+@all ~lockkeeper:* ~nothing`,
    };
    for (const [words, rule] of Object.entries(rules)) {
      const { admin, server } = vault;
      await admin.call('ACL', ['SETUSER', 'limited', 'reset', 'on', '>pw', '+@all', '~*']);
      const client = vault.ioredis({ username: 'limited', password: 'pw' }, server.url);
      const guard = await through(client);
      await admin.call('ACL', ['SETUSER', 'limited', 'resetkeys', ...rule.split(' ')]);
      await expect(increment(guard)).rejects.toMatchObject({
        code: 'unavailable',
        message: new RegExp(words, 'i'),
      });
    }
    expect(await count()).toBe(0);
  });

  it('where a cluster does not serve the slot', async () => {
    await using lonely = await Vault.open({ 'cluster-enabled': 'yes', 'cluster-announce-ip': '127.0.0.1' });
    const guard = redisGuard(lonely.admin, { resource });
    await expect(guard.create()).rejects.toMatchObject({ code: 'unavailable', message: /CLUSTERDOWN/ });
  });

  it('is no matter where the server forgot the script', async () => {
    const guards = [await viaIoredis(), await viaNodeRedis()];
    for (const guard of guards) {
      await vault.admin.script('FLUSH');
      await increment(guard);
    }
    expect(await count()).toBe(2);
  });
});

describe('a command that fails inside the script', () => {
  it('first: nothing was applied', async () => {
    const list = direct.key('list');
    await vault.admin.lpush(list, 'x');
    const run = direct.run(OLD, (tx) => {
      tx.command('INCR', list);
      tx.command('INCR', counter);
    });
    await expect(run).rejects.toMatchObject({
      code: 'unavailable',
      message: /command 1 of 2, INCR .*list failed in the script and nothing was applied: WRONGTYPE/,
    });
    expect(await count()).toBe(0);
  });

  it('later: what came before stays, what came after is not carried out, and the run is unknown', async () => {
    const text = direct.key('text');
    const run = direct.run(OLD, (tx) => {
      tx.set(text, 'no number');
      tx.command('INCR', text);
      tx.command('INCR', counter);
    });
    await expect(run).rejects.toMatchObject({
      code: 'unknown',
      message: /command 2 of 3, INCR .*text failed in the script; what was queued before it was applied/,
    });
    expect(await vault.admin.get(text)).toBe('no number');
    expect(await count()).toBe(0);
  });
});
