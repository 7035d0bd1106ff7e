import { randomUUID } from 'node:crypto';
import { connect, type Keeper, type Leader } from '@lockkeeper/core';
import { type EtcdServer, startEtcd, startTcpProxy, waitUntil } from '@lockkeeper/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

let etcd: EtcdServer;
beforeAll(async () => {
  etcd = await startEtcd({ version: 'newest', own: true });
});
afterAll(() => etcd.stop());

/** What one observer saw, until it is stopped. */
class Watched {
  readonly seen: (Leader | undefined)[] = [];
  readonly #stop = new AbortController();
  readonly #observing: Promise<void>;

  constructor(keeper: Keeper) {
    this.#observing = this.#observe(keeper);
  }

  get values(): (string | undefined)[] {
    return this.seen.map((leader) => leader?.value);
  }

  async stop(): Promise<void> {
    this.#stop.abort('the test is over');
    await this.#observing;
  }

  async #observe(keeper: Keeper): Promise<void> {
    for await (const leader of keeper.election('x').observe({ signal: this.#stop.signal }))
      this.seen.push(leader);
  }
}

describe.each([
  ['swallowed', (proxy: Awaited<ReturnType<typeof startTcpProxy>>) => proxy.blackhole()],
  [
    'cut',
    (proxy: Awaited<ReturnType<typeof startTcpProxy>>) => {
      const refusal = proxy.refuse();
      proxy.cut({ rst: true });
      return refusal;
    },
  ],
] as const)('E15: an observer whose connection is %s for a while', (_, strike) => {
  it('then sees every leader that there was, in order, and nobody who never led', async () => {
    const namespace = randomUUID();
    await using proxy = await startTcpProxy(etcd.endpoint);
    await using observer = await connect({ hosts: proxy.url, namespace });
    const keepers = await Promise.all([1, 2, 3].map(() => connect({ hosts: etcd.endpoint, namespace })));
    const watched = new Watched(observer);
    await waitUntil('it saw that nobody leads', () => watched.seen.length === 1);
    const fault = strike(proxy);
    // The order of three that come at once is etcd's.
    const terms = keepers.map((keeper, index) => keeper.election('x').campaign({ value: `${index + 1}` }));
    const truth: (string | undefined)[] = [];
    while (terms.length > 0) {
      const led = await Promise.race(terms.map(async (term, index) => ({ term: await term, index })));
      truth.push((await keepers[0]?.election('x').leader())?.value);
      if (terms.length > 1) await led.term.resign();
      terms.splice(led.index, 1);
    }
    expect(new Set(truth)).toEqual(new Set(['1', '2', '3']));
    expect(watched.values).toEqual([undefined]);
    fault.restore();
    await waitUntil('it has caught up', () => watched.values.at(-1) === truth.at(-1));
    expect(watched.values).toEqual([undefined, ...truth]);
    await watched.stop();
    await Promise.all(keepers.map((keeper) => keeper.close()));
  });
});

it('an observer whose history was compacted while it was away goes on with the present', async () => {
  const namespace = randomUUID();
  await using proxy = await startTcpProxy(etcd.endpoint);
  await using observer = await connect({ hosts: proxy.url, namespace });
  await using keeper = await connect({ hosts: etcd.endpoint, namespace });
  const watched = new Watched(observer);
  await waitUntil('it saw that nobody leads', () => watched.seen.length === 1);
  const refusal = proxy.refuse();
  proxy.cut({ rst: true });
  await (await keeper.election('x').campaign({ value: 'gone' })).resign();
  const term = await keeper.election('x').campaign({ value: 'here' });
  await etcd.ctl(['compaction', String(term.token.revision)]);
  refusal.restore();
  await waitUntil('it has caught up', () => watched.values.at(-1) === 'here');
  expect(watched.values.filter((value) => value !== 'gone')).toEqual([undefined, 'here']);
  await watched.stop();
});
