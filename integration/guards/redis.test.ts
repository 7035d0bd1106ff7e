// What is particular to the guard for Redis: its record, its keys, and what an effect may do.
import { FencingToken } from '@lockkeeper/fencing';
import { type RedisGuard, type RedisTransaction, redisGuard } from '@lockkeeper/resource-guard/redis';
import { createClientPool, RESP_TYPES } from 'redis';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { newName, Vault } from './redis-vault.ts';

let vault: Vault;
beforeAll(async () => {
  vault = await Vault.open();
});
afterAll(async () => {
  await vault?.[Symbol.asyncDispose]();
});

const token = (revision: bigint) =>
  new FencingToken({ lineage: 'main', revision, acquisition: `a${revision}` });
const OLD = token(1n);
const NEW = token(2n);

let resource: string;
let guard: RedisGuard;
beforeEach(async () => {
  resource = newName();
  guard = redisGuard(vault.admin, { resource });
  await guard.create();
});

describe('the record', () => {
  it('is created once, by create() alone, and every verb says so where it is missing', async () => {
    expect(await guard.create()).toBe(false);
    const fresh = redisGuard(vault.admin, { resource: newName() });
    const calls = {
      claim: () => fresh.claim(OLD),
      run: () => fresh.run(OLD, () => 0),
      seal: () => fresh.seal(OLD),
      inspect: () => fresh.inspect(),
      rebase: () => fresh.rebase(new FencingToken({ ...NEW, lineage: 'new' }), { from: OLD }),
    };
    for (const call of Object.values(calls)) {
      await expect(call()).rejects.toMatchObject({
        code: 'not-migrated',
        outcome: 'failed',
        message: /never created, or lost \(evicted, flushed, restored, failed over\).*guard\.create\(\)/,
      });
    }
    expect(await fresh.create()).toBe(true);
    await fresh.claim(OLD);
  });

  it('that was lost lets nothing pass, a stale token least of all (D3: FLUSHALL)', async () => {
    const text = guard.key('text');
    const older = redisGuard(vault.ioredis(), { resource });
    await older.run(OLD, (tx) => tx.set(text, 'old'));
    await guard.claim(NEW);
    await vault.admin.flushall();
    for (const write of [
      () => older.run(OLD, (tx) => tx.set(text, 'late')),
      () => guard.run(NEW, (tx) => tx.set(text, 'new')),
      () => guard.claim(token(3n)),
    ]) {
      await expect(write()).rejects.toMatchObject({ code: 'not-migrated' });
    }
    expect(await vault.admin.get(text)).toBe(null);
    // An operator made sure that only the newest holder is at work.
    await guard.create();
    await guard.claim(NEW);
    await expect(older.run(OLD, (tx) => tx.set(text, 'late'))).rejects.toMatchObject({ code: 'stale-token' });
  });

  it('that was lost lets a stale token pass with missing: "create", as documented', async () => {
    const careless = redisGuard(vault.ioredis(), { resource: newName(), missing: 'create' });
    expect(await careless.inspect()).toBeUndefined();
    await careless.claim(NEW);
    await expect(careless.run(OLD, () => 0)).rejects.toMatchObject({ code: 'stale-token' });
    await vault.admin.del(careless.recordKey);
    await careless.run(OLD, () => 0);
    expect(await careless.inspect()).toMatchObject({ token: OLD });
  });

  it('that went back to an older state is noticed by a holder that knew better', async () => {
    await guard.claim(NEW);
    await vault.admin.hset(guard.recordKey, { token: `${OLD}` });
    await expect(guard.run(NEW, () => 0)).rejects.toMatchObject({ code: 'retry', outcome: 'retry' });
    await guard.run(NEW, () => 0);
    expect(await guard.inspect()).toMatchObject({ token: NEW });
  });

  it('stays small: one key a resource, without expiry, and writers of the past are forgotten', async () => {
    const clients = Array.from({ length: 80 }, () => vault.ioredis());
    for (const client of clients)
      await redisGuard(client, { resource }).run(OLD, (tx) => tx.set(guard.key('text'), 'x'));
    expect(await vault.admin.hlen(guard.recordKey)).toBe(83);
    await guard.run(NEW, (tx) => tx.set(guard.key('text'), 'y'));
    await guard.run(token(3n), (tx) => tx.set(guard.key('text'), 'z'));
    // format, token, sealed, the own writer, and that others were forgotten.
    expect(await vault.admin.hlen(guard.recordKey)).toBe(5);
    expect(await vault.admin.ttl(guard.recordKey)).toBe(-1);
    for (const client of clients) client.disconnect();
  });

  it('of another kind is refused', async () => {
    const other = redisGuard(vault.admin, { resource: newName() });
    await vault.admin.set(other.recordKey, 'taken');
    await expect(other.claim(OLD)).rejects.toMatchObject({
      code: 'unavailable',
      message: /holds something else/,
    });
    const newer = redisGuard(vault.admin, { resource: newName() });
    await vault.admin.hset(newer.recordKey, 'format', '2');
    await expect(newer.claim(OLD)).rejects.toMatchObject({ code: 'not-migrated', message: /format "2"/ });
  });
});

describe('eviction', () => {
  it('of any key is refused at the start, may be accepted, and fails closed (D3: allkeys-lru)', async () => {
    await using small = await Vault.open({ maxmemory: '8mb', 'maxmemory-policy': 'allkeys-lru' });
    const refusing = redisGuard(small.admin, { resource });
    await expect(refusing.create()).rejects.toMatchObject({
      code: 'unavailable',
      message: /maxmemory-policy of the server is allkeys-lru.*noeviction or volatile/,
    });
    const accepting = redisGuard(small.ioredis(), { resource, eviction: 'accept' });
    await accepting.create();
    await accepting.claim(NEW);
    const filling = small.ioredis();
    for (let at = 0; (await filling.exists(accepting.recordKey)) === 1; at++) {
      // Asking whether a key exists is no use of it.
      await Promise.all(
        Array.from({ length: 200 }, (_, key) => filling.set(`${at}-${key}`, 'x'.repeat(1000))),
      );
    }
    await expect(accepting.run(OLD, () => 0)).rejects.toMatchObject({ code: 'not-migrated' });
    await small.admin.flushall();
    await small.admin.config('SET', 'maxmemory-policy', 'volatile-lru');
    expect(await refusing.create()).toBe(true);
  });

  it('is not looked at where the user may not', async () => {
    await using small = await Vault.open({ maxmemory: '8mb', 'maxmemory-policy': 'allkeys-lru' });
    await small.admin.call('ACL', ['SETUSER', 'limited', 'on', '>pw', '+@all', '-info', '~*']);
    const client = small.ioredis({ username: 'limited', password: 'pw', enableReadyCheck: false });
    expect(await redisGuard(client, { resource }).create()).toBe(true);
  });
});

describe('keys (D15)', () => {
  it('carry the hash tag of the guard, also where the name has braces of its own', async () => {
    expect(guard.key('text')).toBe(`{${resource}}:text`);
    expect(guard.recordKey).toBe(`lockkeeper:guard:{${resource}}`);
    for (const name of ['a}b', '}', '{}', '{x}y', '%7D', '%']) {
      const odd = redisGuard(vault.admin, { resource: name });
      await odd.create();
      const slot = (key: string) => vault.admin.call('CLUSTER', ['KEYSLOT', key]).catch(() => undefined);
      expect(await slot(odd.key('text'))).toBe(await slot(odd.recordKey));
      await odd.run(OLD, (tx) => tx.set(odd.key('text'), name));
      expect(await vault.admin.get(odd.key('text'))).toBe(name);
    }
    expect(redisGuard(vault.admin, { resource: 'a}b' }).key('x')).not.toBe(
      redisGuard(vault.admin, { resource: 'a%7Db' }).key('x'),
    );
  });

  it('of another slot are refused when they are queued, and nothing is sent', async () => {
    const first = guard.key('first');
    const effects: ((tx: RedisTransaction) => unknown)[] = [
      (tx) => tx.set('balance', 1),
      (tx) => tx.command('MSET', first, 1, '{other}:x', 2),
      (tx) => tx.command('RENAME', first, `x${first.replace('{', '(')}`),
      (tx) => tx.command('ZUNIONSTORE', first, 2, first, 'second'),
      (tx) => tx.commandOn(['x'], 'JSON.SET', 'x', '$', '1'),
      (tx) => tx.get('balance'),
    ];
    for (const effect of effects) {
      const run = guard.run(OLD, async (tx) => {
        tx.set(first, 'x');
        await effect(tx);
      });
      await expect(run).rejects.toMatchObject({ code: 'invalid-option', message: /in another hash slot/ });
    }
    expect(await vault.admin.exists(first)).toBe(0);
  });

  it('may have a tag that the data had before, or none where the server is no cluster', async () => {
    const tagged = redisGuard(vault.admin, { resource, hashTag: 'customer 7' });
    expect(tagged.recordKey).toBe(`lockkeeper:guard:{customer 7}:${resource}`);
    await tagged.create();
    await tagged.run(OLD, (tx) => tx.set('cart:{customer 7}', 'full'));
    const any = redisGuard(vault.admin, { resource, keySlots: 'any' });
    await any.run(OLD, (tx) => tx.set('balance', 1));
    expect(await vault.admin.get('balance')).toBe('1');
    await expect(any.run(OLD, (tx) => tx.set(any.recordKey, 1))).rejects.toMatchObject({
      code: 'invalid-option',
      message: /own record/,
    });
  });

  it('get the prefix of an ioredis client like everywhere', async () => {
    const prefixed = redisGuard(vault.ioredis({ keyPrefix: 'app:' }), { resource });
    await prefixed.create();
    const key = prefixed.key('text');
    const seen = await prefixed.run(OLD, async (tx) => {
      tx.command('MSET', key, 'a', prefixed.key('more'), 'b');
      return tx.get(key);
    });
    expect(seen).toBe(null);
    expect(await vault.admin.mget(`app:${key}`, `app:${prefixed.key('more')}`)).toEqual(['a', 'b']);
    expect(await vault.admin.exists(`app:${prefixed.recordKey}`)).toBe(1);
  });

  it('work on a cluster with either driver; whatever has no slot there is refused first', async () => {
    await using cluster = await Vault.openCluster();
    for (const client of [cluster.ioredisCluster(), await cluster.nodeRedisCluster()]) {
      const on = redisGuard(client, { resource: newName() });
      await on.create();
      await on.run(OLD, (tx) => tx.command('MSET', on.key('a'), 1, on.key('b'), 2));
      await expect(on.run(OLD, (tx) => tx.command('DEL', on.key('a'), 'b'))).rejects.toMatchObject({
        code: 'invalid-option',
      });
      expect(await on.run(OLD, (tx) => tx.read('MGET', on.key('a'), on.key('b')))).toEqual(['1', '2']);
      expect(() => redisGuard(client, { resource, keySlots: 'any' })).toThrow(/keySlots is "any"/);
      expect(() => redisGuard(client, { resource, wait: { replicas: 1 } })).toThrow(
        /expected none on a cluster/,
      );
    }
  });
});

describe('an effect', () => {
  it('sends its commands together, in their order, and gives their replies after the run', async () => {
    const run = await guard.run(OLD, (tx) => {
      const replies = [
        tx.set(guard.key('n'), 41),
        tx.command('incr', guard.key('n')),
        tx.command('HSET', guard.key('h'), 'a', 1n, 'b', Buffer.from([0xff, 0])),
        tx.command('LPOP', guard.key('nothing')),
        tx.command('RPUSH', guard.key('l'), 'x', 'y'),
        tx.commandOn([guard.key('l')], 'SORT', guard.key('l'), 'ALPHA', 'DESC'),
      ];
      expect(() => replies[0]?.value).toThrow(/the run has not resolved/);
      return replies;
    });
    expect(run.map((reply) => reply.value)).toEqual(['OK', 42, 2, null, 2, ['y', 'x']]);
    expect(await vault.admin.hgetBuffer(guard.key('h'), 'b')).toEqual(Buffer.from([0xff, 0]));
  });

  it('refuses what it cannot send, before anything is sent', async () => {
    const key = guard.key('k');
    const cases: [RegExp, (tx: RedisTransaction) => unknown][] = [
      [/command is "INCR"; got 2 arguments, expected 1/, (tx) => tx.command('INCR', key, 1)],
      [/command is "HSET"; got 1 arguments, expected 3 or more/, (tx) => tx.command('HSET', key)],
      [/command is "FLUSHALL"; expected one whose keys are known/, (tx) => tx.command('FLUSHALL')],
      [/command is "GET"; it only reads/, (tx) => tx.command('GET', key)],
      [/command is "SET"; expected a command that reads/, (tx) => tx.read('SET', key, 'x')],
      [
        /for options use tx\.command\('SET', key, value, "EX", 10\)/,
        (tx) => (tx.set as (...args: unknown[]) => unknown).call(tx, key, 'x', 'EX', 10),
      ],
      [/an argument is undefined/, (tx) => tx.set(key, undefined as never)],
      [/an argument is NaN/, (tx) => tx.set(key, Number.NaN)],
      [/an argument is a plain object/, (tx) => tx.set(key, {} as never)],
      [/key is 7; expected a non-empty string/, (tx) => tx.set(7 as never, 'x')],
      [/number of keys is 5/, (tx) => tx.command('ZUNIONSTORE', key, 5, key)],
      [/RPUSH has 6001 arguments/, (tx) => tx.command('RPUSH', key, ...Array(6000).fill('x'))],
      [/keys has .*, which is no argument/, (tx) => tx.commandOn([key], 'PING')],
      [/the guard's own record/, (tx) => tx.commandOn([key], 'SORT', key, 'STORE', guard.recordKey)],
    ];
    for (const [message, effect] of cases) {
      const run = guard.run(OLD, async (tx) => {
        tx.set(guard.key('first'), 'x');
        await effect(tx);
      });
      await expect(run).rejects.toMatchObject({ code: 'invalid-option', message });
    }
    expect(await vault.admin.exists(guard.key('first'))).toBe(0);
  });

  it('cannot use its handle later', async () => {
    let kept: RedisTransaction | undefined;
    await guard.run(OLD, (tx) => {
      kept = tx;
    });
    expect(() => kept?.set(guard.key('k'), 1)).toThrow(/used after its run was over/);
    await expect(kept?.get(guard.key('k'))).rejects.toMatchObject({ code: 'invalid-option' });
  });

  it('carries 4,000 words in one command and 2,000 commands in one run', async () => {
    const key = guard.key('list');
    await guard.run(OLD, (tx) => {
      tx.command('RPUSH', key, ...Array.from({ length: 4000 }, (_, at) => at));
      for (let at = 0; at < 2000; at++) tx.command('RPUSH', key, at);
    });
    expect(await vault.admin.llen(key)).toBe(6000);
  });

  it('of a token that was superseded since is not applied, whatever it did meanwhile', async () => {
    const key = guard.key('k');
    await guard.claim(OLD);
    const other = redisGuard(vault.ioredis(), { resource });
    const run = guard.run(OLD, async (tx) => {
      tx.set(key, `${await tx.get(key)}x`);
      await other.claim(NEW);
    });
    await expect(run).rejects.toMatchObject({ code: 'stale-token', current: NEW });
    expect(await vault.admin.exists(key)).toBe(0);
  });
});

describe('the client', () => {
  it('is refused where it is none, or cannot carry a script', async () => {
    const plain = await vault.nodeRedis();
    const pool = createClientPool({ url: vault.server.url });
    for (const [client, message] of [
      [{}, /client is a plain object; expected a client or a cluster/],
      [undefined, /client is undefined/],
      [pool, /expected a client or a cluster/],
      [vault.admin.pipeline(), /not its MULTI or pipeline/],
      [plain.multi(), /not its MULTI or pipeline/],
      [vault.ioredis({ keyPrefix: '{a}' }), /keyPrefix of the client is "{a}"/],
      [
        vault.ioredisCluster({ scaleReads: 'slave', lazyConnect: true }),
        /scaleReads of the client is "slave"/,
      ],
    ] as const) {
      expect(() => redisGuard(client as never, { resource })).toThrow(
        expect.objectContaining({ code: 'invalid-option', message: expect.stringMatching(message) }),
      );
    }
    const subscriber = vault.ioredis();
    await subscriber.subscribe('news');
    await plain.subscribe('news', () => undefined);
    for (const client of [subscriber, plain]) {
      const call = redisGuard(client, { resource }).claim(OLD);
      await expect(call).rejects.toMatchObject({ code: 'invalid-option', message: /subscriber mode/ });
    }
  });

  it('has its options checked', () => {
    for (const [options, message] of [
      [{ missing: 'maybe' }, /missing is "maybe"; expected "refuse" or "create"/],
      [{ wait: { replicas: 0 } }, /wait.replicas is 0/],
      [{ wait: 2 }, /wait is 2/],
      [{ timeoutMs: 0 }, /timeoutMs is 0/],
      [{ hashTag: '{x}' }, /hashTag is "{x}"/],
      [{ prefix: 'a{' }, /prefix is "a{"/],
      [{ resource: '' }, /resource is ""/],
    ] as const) {
      expect(() => redisGuard(vault.admin, { resource, ...options } as never)).toThrow(message);
    }
  });

  it('may be set to give bytes', async () => {
    const typeMapping = { [RESP_TYPES.BLOB_STRING]: Buffer };
    for (const RESP of [2, 3]) {
      const client = await vault.nodeRedis(vault.server.url, { RESP, commandOptions: { typeMapping } });
      const one = redisGuard(client, { resource });
      const used = token(BigInt(RESP));
      await one.run(used, (tx) => tx.set(one.key('text'), `v${RESP}`));
      expect(await one.run(used, (tx) => tx.get(one.key('text')))).toBe(`v${RESP}`);
      await one.seal(used);
      expect(await one.inspect()).toEqual({ token: used, sealed: true });
    }
  });

  it('keeps no listener or timer of a call that ended', async () => {
    const client = vault.ioredis();
    const node = await vault.nodeRedis();
    await client.ping();
    const listeners = () =>
      [client, node].flatMap((each) => ['close', 'ready', 'end'].map((event) => each.listenerCount(event)));
    const before = listeners();
    for (const each of [client, node]) {
      const one = redisGuard(each, { resource });
      await Promise.all(Array.from({ length: 20 }, () => one.run(OLD, () => 0)));
    }
    expect(listeners()).toEqual(before);
  });
});
