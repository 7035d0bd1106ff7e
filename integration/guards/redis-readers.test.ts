// Readers and writers of one read/write lock on Redis, where the contract does not look: the script against the
// table over long histories, and runs of readers that are sent again.
import { decideGuard, FencingToken, GuardError, type GuardState, type GuardVerb } from '@lockkeeper/fencing';
import { type RedisGuard, redisGuard } from '@lockkeeper/resource-guard/redis';
import { chunkContaining, startTcpProxy, type TcpProxy } from '@lockkeeper/testkit';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { newName, Vault } from './redis-vault.ts';

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

const token = (revision: bigint, shared = false, acquisition = `a${revision}`) =>
  new FencingToken({ lineage: 'main', revision, acquisition, shared });
const reader = (revision: bigint) => token(revision, true);

let resource: string;
let direct: RedisGuard;
let counter: string;

beforeEach(async () => {
  resource = newName();
  direct = redisGuard(vault.admin, { resource });
  await direct.create();
  counter = direct.key('counter');
});

/** The same numbers for the same seed (mulberry32). */
function randomFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

it.each([1, 2, 3, 4])('the script decides like the table, over a history of seed %i', async (seed) => {
  const random = randomFrom(seed);
  // Around a border of Lua's numbers, close together, so that tokens meet.
  let base = 2n ** 53n;
  let state: GuardState | undefined;
  for (let step = 1; step <= 600; step++) {
    const revision = base + BigInt(random(7)) - 3n;
    const presented = token(revision, random(3) > 0, random(12) === 0 ? 'somebody-else' : `a${revision}`);
    const verb = (['claim', 'run', 'seal'] as const)[random(3)] as GuardVerb;
    const requireClaim = random(4) === 0;
    const expected = decideGuard(verb, resource, state, presented, { requireClaim });
    // A guard of its own has seen nothing: the token is judged when it enters, and when it applies.
    const guard = random(2) === 0 ? direct : redisGuard(vault.admin, { resource });
    const call = verb === 'run' ? guard.run(presented, () => 0, { requireClaim }) : guard[verb](presented);
    const told = await call.then(
      () => undefined,
      (error: unknown) => error,
    );
    const what = `step ${step}: ${verb} ${presented}${requireClaim ? ', which has to have claimed' : ''}`;
    if (expected.verdict === 'accept') expect(told, what).toBeUndefined();
    else {
      expect(told, what).toBeInstanceOf(GuardError);
      const { code, current } = told as GuardError;
      expect({ code, current }, what).toEqual({ code: expected.error.code, current: expected.error.current });
    }
    state = (expected.verdict === 'accept' && expected.next) || state;
    expect(await direct.inspect(), what).toEqual(state);
    if (random(5) === 0) base += 1n;
  }
});

describe('what ioredis sends again is carried out once', () => {
  const count = async () => Number(await vault.admin.get(counter));
  const increment = (guard: RedisGuard, as: FencingToken) =>
    guard.run(as, (tx) => tx.command('INCR', counter));
  const through = () => redisGuard(vault.ioredis({ retryStrategy: () => 5 }, proxy.url), { resource });
  const loseReply = () => proxy.loseReply({ match: chunkContaining('evalsha') }).lost;

  it('of readers beside each other, with 40 runs in flight on one client', async () => {
    const guard = through();
    const readers = [2n, 4n, 3n, 5n].map(reader);
    for (const as of readers) await guard.claim(as);
    const lost = loseReply().then(() => proxy.cut());
    const runs = Array.from({ length: 40 }, (_, at) => increment(guard, readers[at % 4] as FencingToken));
    await Promise.all(runs);
    await lost;
    expect(await count()).toBe(40);
  });

  it.each(['a reader', 'a writer'])('of a reader below the mark, after %s has claimed', async (who) => {
    const guard = through();
    await guard.claim(token(1n));
    await guard.claim(reader(2n));
    await direct.claim(reader(3n));
    const caught = loseReply();
    const run = increment(guard, reader(2n));
    await caught;
    const refusing = proxy.refuse();
    proxy.cut();
    await direct.claim(token(4n, who === 'a reader'));
    refusing.restore();
    await run;
    expect(await count()).toBe(1);
    const later = increment(guard, reader(2n));
    if (who === 'a reader') await later;
    else await expect(later).rejects.toMatchObject({ code: 'stale-token', current: token(4n) });
  });

  it('however many readers have written since', async () => {
    const guard = through();
    await guard.claim(reader(2n));
    const caught = loseReply();
    const run = increment(guard, reader(2n));
    await caught;
    const refusing = proxy.refuse();
    proxy.cut();
    const clients = Array.from({ length: 80 }, () => vault.ioredis());
    for (const [at, client] of clients.entries())
      await increment(redisGuard(client, { resource }), reader(BigInt(10 + at)));
    // Nobody of them was forgotten: each may yet send again what was carried out.
    expect(await vault.admin.hget(direct.recordKey, 'forgot')).toBeNull();
    refusing.restore();
    await run;
    expect(await count()).toBe(81);
    await direct.claim(token(100n));
    await direct.claim(token(101n));
    expect(await vault.admin.hlen(direct.recordKey)).toBeLessThan(8);
    for (const client of clients) client.disconnect();
  });

  it('and a run that writes nothing leaves no trace', async () => {
    const guard = through();
    await guard.run(reader(2n), (tx) => tx.get(counter));
    expect(await vault.admin.hkeys(direct.recordKey)).toEqual(['format', 'token', 'sealed']);
  });
});
