import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from '@lockkeeper/core';
import { type EtcdServer, startWorker, type Worker, waitUntil } from '@lockkeeper/testkit';
import { expect } from 'vitest';

const WORKER = new URL('./candidate-worker.ts', import.meta.url);

/** How the candidates that do not lead come and go. */
const WAYS = ['killed', 'revoked', 'deleted', 'ended'] as const;

/**
 * E1: three to seven candidates, of which those who do not lead are killed, cut off by an operator or told to end, at
 * random, and replaced. Whoever leads goes on leading, and everybody else sees that he does.
 */
export async function keepOneLeader(etcd: EtcdServer, durationMs: number): Promise<void> {
  const namespace = randomUUID();
  await using observer = await connect({ hosts: etcd.endpoint, namespace });
  const election = observer.election('x');
  const seen: (bigint | undefined)[] = [];
  const stop = new AbortController();
  const observing = (async () => {
    for await (const leader of election.observe({ signal: stop.signal })) seen.push(leader?.revision);
  })();
  const start = () => startWorker(WORKER, { args: [etcd.endpoint, namespace] });
  const leader = await start();
  const others: Worker[] = [];
  let struck = 0;
  try {
    const { revision } = await leader.next('leads');
    while (others.length < 3) others.push(await start());
    for (const end = performance.now() + durationMs; performance.now() < end; struck += 1) {
      const index = Math.floor(Math.random() * others.length);
      const [victim] = others.splice(index, 1);
      await strike(etcd, observer.coordinator, namespace, victim, WAYS[struck % WAYS.length] ?? 'killed');
      while (others.length < 2 + Math.floor(Math.random() * 5)) others.push(await start());
      await sleep(50);
    }
    expect(seen.filter((each) => each !== undefined)).toEqual([revision]);
    expect(leader.messages.map(({ message }) => message.type)).toEqual(['leads']);
    for (const other of others) expect(other.messages.map(({ message }) => message.type)).toEqual([]);
    expect(struck).toBeGreaterThan(durationMs / 2_000);
    // And it is one of them who leads next.
    await leader.kill('SIGKILL');
    await waitUntil('somebody else leads', () => (seen.at(-1) ?? 0n) > BigInt(revision as bigint));
  } finally {
    stop.abort('the test is over');
    await Promise.all([leader, ...others].map((worker) => worker[Symbol.asyncDispose]()));
    await observing;
  }
}

/** Ends a candidacy that may not even have begun. */
async function strike(
  etcd: EtcdServer,
  coordinator: Awaited<ReturnType<typeof connect>>['coordinator'],
  namespace: string,
  victim: Worker | undefined,
  way: (typeof WAYS)[number],
): Promise<void> {
  const root = `${namespace}/election/x`;
  if (way === 'killed') return void (await victim?.kill('SIGKILL'));
  if (way === 'ended') return void (await victim?.kill('SIGTERM'));
  const { kvs } = await coordinator.range({
    key: `${root}/`,
    rangeEnd: `${root}0`,
    sort: { by: 'createRevision', order: 'ascend' },
  });
  const own = kvs.slice(1).find(({ value }) => new TextDecoder().decode(value) === String(victim?.pid));
  if (own !== undefined && way === 'revoked') await etcd.ctl(['lease', 'revoke', own.lease.toString(16)]);
  if (own !== undefined && way === 'deleted') await etcd.ctl(['del', own.key]);
  // It enters again by itself after that, at the end of the line; here it makes room.
  await victim?.kill('SIGKILL');
}
