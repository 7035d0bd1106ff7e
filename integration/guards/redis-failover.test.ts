// What a fail-over to an asynchronous replica can forget, and how far WAIT narrows it. The replica's link goes
// through a proxy, so that a test decides what it has seen.
import { FencingToken } from '@lockkeeper/fencing';
import { type RedisGuard, redisGuard } from '@lockkeeper/resource-guard/redis';
import { startTcpProxy, type TcpProxy } from '@lockkeeper/testkit';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { newName, until, Vault } from './redis-vault.ts';

let primary: Vault;
let replica: Vault;
let link: TcpProxy;

beforeEach(async () => {
  primary = await Vault.open();
  link = await startTcpProxy(primary.server.url);
  replica = await Vault.open({ replicaof: `127.0.0.1 ${link.port}` });
  await until(async () => /master_link_status:up/.test(await replica.admin.info('replication')));
  await until(async () => /slave0:.*state=online/.test(await primary.admin.info('replication')));
});
afterEach(async () => {
  await replica?.[Symbol.asyncDispose]();
  await link?.[Symbol.asyncDispose]();
  await primary?.[Symbol.asyncDispose]();
});

const token = (revision: bigint) =>
  new FencingToken({ lineage: 'main', revision, acquisition: `a${revision}` });
const OLD = token(1n);
const NEW = token(2n);

async function failOver(): Promise<void> {
  await primary.server.kill();
  await replica.admin.call('REPLICAOF', ['NO', 'ONE']);
}

const offset = async (vault: Vault, field: string) =>
  new RegExp(`${field}:(\\d+)`).exec(await vault.admin.info('replication'))?.[1];
/** Until the replica has all that the primary has. */
const caughtUp = () =>
  until(
    async () =>
      (await offset(primary, 'master_repl_offset')) === (await offset(replica, 'slave_repl_offset')),
  );

async function claimedByOld(resource: string, options: object = {}): Promise<RedisGuard> {
  const guard = redisGuard(primary.ioredis(), { resource, ...options });
  await guard.create();
  await guard.claim(OLD);
  await caughtUp();
  return guard;
}

it('forgets a claim that had not reached the replica: the documented limit', async () => {
  const resource = newName();
  const guard = await claimedByOld(resource);
  link.blackhole('reply');
  await guard.claim(NEW);
  await failOver();
  const after = redisGuard(replica.admin, { resource });
  expect(await after.inspect()).toMatchObject({ token: OLD });
  // The stale token passes, until the newer one is seen again.
  await after.run(OLD, (tx) => tx.set(after.key('text'), 'late'));
  await after.claim(NEW);
  await expect(after.run(OLD, () => 0)).rejects.toMatchObject({ code: 'stale-token' });
});

it('forgets no claim and no write that WAIT acknowledged; the others were unknown', async () => {
  const resource = newName();
  const guard = await claimedByOld(resource, { wait: { replicas: 1, timeoutMs: 10_000 } });
  const text = guard.key('text');
  await guard.run(OLD, (tx) => tx.set(text, 'acknowledged'));
  link.blackhole('reply');
  const wait = { replicas: 1, timeoutMs: 200 };
  const [one, another] = [primary.ioredis(), primary.ioredis()].map((client) =>
    redisGuard(client, { resource, wait }),
  ) as [RedisGuard, RedisGuard];
  // Repeated on another connection it is no better.
  for (const call of [() => one.claim(NEW), () => another.claim(NEW), () => another.seal(NEW)]) {
    await expect(call()).rejects.toMatchObject({
      code: 'unknown',
      message: /applied by the primary, but 0 of 1 replicas acknowledged it within wait.timeoutMs 200/,
    });
  }
  await failOver();
  const after = redisGuard(replica.admin, { resource });
  expect(await after.inspect()).toMatchObject({ token: OLD, sealed: false });
  expect(await replica.admin.get(text)).toBe('acknowledged');
});

it('a run is unknown where too few replicas acknowledged, and applied at the primary', async () => {
  const resource = newName();
  const client = await primary.nodeRedis();
  await claimedByOld(resource);
  const guard = redisGuard(client, { resource, wait: { replicas: 2, timeoutMs: 3_000 } });
  const text = guard.key('text');
  await expect(guard.run(OLD, (tx) => tx.set(text, 'x'))).rejects.toMatchObject({
    code: 'unknown',
    message: /1 of 2 replicas/,
  });
  expect(await primary.admin.get(text)).toBe('x');
});

it('takes no acknowledgement that comes on another connection than the answer', async () => {
  const resource = newName();
  await claimedByOld(resource);
  const proxy = await startTcpProxy(primary.server.url);
  try {
    const client = primary.ioredis({ retryStrategy: () => 5 }, proxy.url);
    const warm = redisGuard(client, { resource, wait: { replicas: 1, timeoutMs: 10_000 } });
    await warm.run(OLD, () => 0);
    link.blackhole('reply');
    // The claim is carried out; the connection breaks while WAIT waits, and the client asks again on another.
    const guard = redisGuard(client, { resource, wait: { replicas: 1, timeoutMs: 3_000 } });
    const claim = guard.claim(NEW);
    // Blocked: its last command was a WAIT before, too.
    await until(async () => / flags=\w*b\w* .* cmd=wait/.test(`${await primary.admin.client('LIST')}`));
    proxy.cut();
    await expect(claim).rejects.toMatchObject({ code: 'unknown' });
  } finally {
    await proxy[Symbol.asyncDispose]();
  }
});

it('a replica takes no claim', async () => {
  const resource = newName();
  await claimedByOld(resource);
  await expect(redisGuard(replica.admin, { resource }).claim(NEW)).rejects.toMatchObject({
    code: 'unavailable',
    message: /is a replica/,
  });
});
