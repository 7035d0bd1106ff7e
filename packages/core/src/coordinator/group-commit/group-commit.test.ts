import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { LockkeeperError } from '../../errors.ts';
import type { CallOptions, Compare, Coordinator, Operation, Txn, TxnReply } from '../coordinator.ts';
import { type MemoryCoordinator, memoryCoordinator } from '../memory/memory-coordinator.ts';
import { memoryStore } from '../memory/memory-store.ts';
import { VirtualClock } from '../memory/virtual-clock.ts';
import { GroupCommit } from './group-commit.ts';

/** One transaction that reached the coordinator below, and how the test answers it. */
interface Arrived {
  readonly txn: Txn;
  readonly options: CallOptions | undefined;
  /** Carries it out, and answers. */
  apply(): Promise<void>;
  fail(error: unknown): void;
}

let clock: VirtualClock;
let arrived: Arrived[];
let below: Coordinator;
let group: GroupCommit;

beforeEach(() => {
  clock = new VirtualClock();
  arrived = [];
  below = memoryCoordinator({ store: memoryStore({ clock }) });
  group = new GroupCommit(heldUp(below), 5_000);
});
afterEach(() => group.close());

/** A coordinator of which the test answers the transactions. */
function heldUp(inner: Coordinator): Coordinator {
  const held = memoryCoordinator({ store: (inner as MemoryCoordinator).store });
  held.txn = (txn, options) =>
    new Promise((resolve, reject) => {
      const apply = () => inner.txn(txn).then(resolve, reject);
      options?.signal?.addEventListener('abort', () => reject(options.signal?.reason));
      arrived.push({ txn, options, apply, fail: reject });
    });
  return held;
}

const absent = (key: string, rangeEnd?: string): Compare => {
  return { key, rangeEnd, target: 'createRevision', is: '=', to: 0n };
};

/** Puts a key if it is absent, and else reads it. */
function create(key: string, more: { lease?: bigint; compare?: Compare[] } = {}): Txn {
  const { lease = 0n, compare = [] } = more;
  return {
    compare: [absent(key), ...compare],
    success: [{ op: 'put', key, value: 'x', lease }],
    failure: [{ op: 'range', key }],
  };
}

const endOfTurn = () => new Promise((resolve) => setImmediate(resolve));

/** The keys that the members of what arrived put. */
const keysOf = ({ txn }: Arrived): string[] =>
  txn.success.flatMap((operation: Operation) =>
    operation.op === 'txn'
      ? operation.success.flatMap((each) => (each.op === 'put' ? each.key : []))
      : operation.op === 'put'
        ? operation.key
        : [],
  );

const refused = (code: LockkeeperError['code']) => new LockkeeperError(code, code, { outcome: 'rejected' });

describe('what leaves together', () => {
  test('one alone leaves as it is, within its turn', async () => {
    const txn = create('a');
    void group.txn(txn);
    await Promise.resolve();
    await new Promise((resolve) => process.nextTick(resolve));
    expect(arrived.map((each) => each.txn)).toEqual([txn]);
    await arrived[0]?.apply();
  });

  test('transactions of one turn are one, and each gets its own answer with the revision of the whole', async () => {
    await below.txn(create('b'));
    const replies = Promise.all(['a', 'b', 'c'].map((key) => group.txn(create(key))));
    await endOfTurn();
    expect(arrived.map(keysOf)).toEqual([['a', 'b', 'c']]);
    await arrived[0]?.apply();
    const [a, b, c] = await replies;
    const { kvs, revision } = await below.range({ key: 'a', rangeEnd: 'd' });
    expect(kvs.map(({ key, modRevision }) => [key, modRevision])).toEqual([
      ['a', revision],
      ['b', revision - 1n],
      ['c', revision],
    ]);
    expect(a).toEqual({ succeeded: true, results: [{ op: 'put' }], revision });
    expect(c).toEqual({ succeeded: true, results: [{ op: 'put' }], revision });
    expect(b).toMatchObject({ succeeded: false, results: [{ op: 'range', count: 1 }], revision });
  });

  test('what comes while two are on their way gathers, and leaves when one has arrived', async () => {
    const calls: Promise<TxnReply>[] = [];
    for (const key of ['a', 'b', 'c', 'd', 'e']) {
      calls.push(group.txn(create(key)));
      await endOfTurn();
    }
    expect(arrived.map(keysOf)).toEqual([['a'], ['b']]);
    await arrived[1]?.apply();
    await endOfTurn();
    expect(arrived.map(keysOf)).toEqual([['a'], ['b'], ['c', 'd', 'e']]);
    for (const each of arrived) await each.apply();
    await Promise.all(calls);
  });

  describe('those that read the same range and write in it', () => {
    const contend = (at: number): Txn => create(`crowd/${at}`, { compare: [absent('crowd/', 'crowd0')] });

    test('follow each other, and hold up nobody else', async () => {
      const calls = Array.from({ length: 300 }, (_, at) => group.txn(contend(at)));
      calls.push(group.txn(create('other')));
      await endOfTurn();
      expect(keysOf(arrived[0] as Arrived)).toEqual(['crowd/0', 'other']);
      const order: string[][] = [];
      for (let next = arrived.shift(); next !== undefined; next = arrived.shift()) {
        order.push(keysOf(next));
        await next.apply();
        await endOfTurn();
      }
      expect(order.slice(1)).toEqual(Array.from({ length: 299 }, (_, at) => [`crowd/${at + 1}`]));
      await Promise.all(calls);
    });

    test('do not wait for one that has given up', async () => {
      const controllers = Array.from({ length: 40 }, () => new AbortController());
      const calls = controllers.map(({ signal }, at) => group.txn(contend(at), { signal }));
      const settled = Promise.allSettled(calls);
      const abort = (at: number) => controllers[at]?.abort(`gone ${at}`);
      // One in the queue, and some behind it.
      for (const at of [0, 1, 2, 30]) abort(at);
      await endOfTurn();
      const sent = () => arrived.flatMap(keysOf);
      expect(sent()[0]).toBe('crowd/3');
      while (arrived.length > 0) {
        await arrived.shift()?.apply();
        await endOfTurn();
      }
      const ended = (await settled).map(({ status }) => status);
      expect(ended.flatMap((status, at) => (status === 'rejected' ? at : []))).toEqual([0, 1, 2, 30]);
    });

    test('are told when it closes', async () => {
      const calls = Promise.allSettled(Array.from({ length: 50 }, (_, at) => group.txn(contend(at))));
      await endOfTurn();
      await group.close();
      for (const { fail } of arrived) fail(refused('closed'));
      const ended = await calls;
      expect(ended.every((each) => each.status === 'rejected' && each.reason.code === 'closed')).toBe(true);
    });
  });

  test('at most 120, and no more than etcd takes in a transaction', async () => {
    const calls = Array.from({ length: 130 }, (_, at) => group.txn(create(`k${at}`)));
    // A list of 30 in one leaves 98 for all.
    calls.push(
      group.txn(create('wide', { compare: Array.from({ length: 29 }, (_, at) => absent(`w${at}`)) })),
    );
    calls.push(...Array.from({ length: 100 }, (_, at) => group.txn(create(`l${at}`))));
    await endOfTurn();
    while (arrived.length > 0) {
      const each = arrived.shift() as Arrived;
      expect(keysOf(each).length).toBeLessThanOrEqual(keysOf(each).includes('wide') ? 98 : 120);
      await each.apply();
      await endOfTurn();
    }
    await Promise.all(calls);
  });

  test('no more bytes than fit a request; what is longer goes alone', async () => {
    const value = 'x'.repeat(300_000);
    const big = (key: string): Txn => ({ compare: [], success: [{ op: 'put', key, value }], failure: [] });
    const calls = ['a', 'b', 'c'].map((key) => group.txn(big(key)));
    calls.push(group.txn(create('small')));
    for (const keys of [['a', 'small'], ['b'], ['c']]) {
      await endOfTurn();
      const each = arrived.shift() as Arrived;
      expect(keysOf(each)).toEqual(keys);
      await each.apply();
    }
    await Promise.all(calls);
  });

  test('what only reads is asked as ever', async () => {
    const reading: Txn = { compare: [], success: [{ op: 'range', key: 'a' }], failure: [] };
    const calls = [group.txn(create('a')), group.txn(reading)];
    await endOfTurn();
    expect(arrived.map((each) => each.txn.success.map(({ op }) => op))).toEqual([['range'], ['put']]);
    for (const each of arrived) await each.apply();
    await Promise.all(calls);
  });
});

describe('what must not meet', () => {
  const members = (a: Txn, b: Txn) => async () => {
    const calls = [group.txn(a), group.txn(b)];
    await endOfTurn();
    const sizes = arrived.map((each) => keysOf(each).length);
    for (const each of arrived) await each.apply();
    await Promise.allSettled(calls);
    return sizes;
  };
  const apart: [string, Txn, Txn][] = [
    ['two that put one key', create('a'), create('a')],
    [
      'a put, and a range that is compared with',
      create('q/1'),
      create('x', { compare: [absent('q/', 'q0')] }),
    ],
    ['the same the other way round', create('x', { compare: [absent('q/', 'q0')] }), create('q/1')],
    [
      'a put, and a key that is read',
      create('a'),
      {
        compare: [],
        success: [
          { op: 'range', key: 'a' },
          { op: 'put', key: 'b', value: '' },
        ],
        failure: [],
      },
    ],
    [
      'a put, and the deletion of all keys',
      create('zz'),
      {
        compare: [],
        success: [
          { op: 'delete', key: 'a', rangeEnd: '\0' },
          { op: 'put', key: 'b', value: '' },
        ],
        failure: [],
      },
    ],
  ];
  test.each(apart)('%s', async (_, a, b) => {
    expect(await members(a, b)()).toEqual([1, 1]);
  });

  test('two that do not look at each other, but are told apart by their revision', async () => {
    const apartIn = [{ key: 'q/', rangeEnd: 'q0' }];
    const reader = (key: string): Txn => ({ ...create(key), apartIn });
    expect(await members(reader('q/r/1'), reader('q/r/2'))()).toEqual([1, 1]);
  });

  test('what both only read may be the same', async () => {
    const lineage = absent('lineage');
    expect(await members(create('a', { compare: [lineage] }), create('b', { compare: [lineage] }))()).toEqual(
      [2],
    );
  });

  test('none is overtaken by what touches the same keys, and others are not held up', async () => {
    const order: string[] = [];
    const call = (key: string, name: string) => void group.txn(create(key)).then(() => order.push(name));
    call('first', '1');
    await endOfTurn();
    call('second', '2');
    await endOfTurn();
    call('a', 'a1');
    call('a', 'a2');
    call('b', 'b1');
    call('a', 'a3');
    await arrived[0]?.apply();
    await endOfTurn();
    // Where waiting would gather nothing, more than two are on their way.
    expect(arrived.slice(2).map(keysOf)).toEqual([['a', 'b'], ['a'], ['a']]);
    for (const each of arrived.slice(1)) await each.apply();
    await endOfTurn();
    expect(order).toEqual(['1', '2', 'a1', 'b1', 'a2', 'a3']);
  });
});

describe('a refused batch', () => {
  test('harms nobody but whom the refusal is for', async () => {
    await below.grant({ lease: 7n, ttlMs: 60_000 });
    const calls = Array.from({ length: 40 }, (_, at) =>
      group.txn(create(`k${at}`, { lease: at === 23 ? 666n : 7n })),
    );
    const outcomes = Promise.allSettled(calls);
    await applyAll();
    expect(
      (await outcomes).map(({ status }, at) => status === (at === 23 ? 'rejected' : 'fulfilled')),
    ).toEqual(calls.map(() => true));
    await expect(calls[23]).rejects.toMatchObject({ code: 'lease-not-found', outcome: 'rejected' });
  });

  test('is told to all of one dead lease at once', async () => {
    const calls = Array.from({ length: 100 }, (_, at) => group.txn(create(`k${at}`, { lease: 666n })));
    calls.push(group.txn(create('free')));
    const outcomes = Promise.allSettled(calls);
    await endOfTurn();
    await arrived[0]?.apply();
    await endOfTurn();
    expect(arrived.slice(1).map(keysOf)).toEqual([['free']]);
    await arrived[1]?.apply();
    expect((await outcomes).filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  });

  test('is not blamed on whoever is left of it: the dead lease may be that of one who has given up', async () => {
    await below.grant({ lease: 7n, ttlMs: 60_000 });
    const controller = new AbortController();
    const gaveUp = group.txn(create('a', { lease: 666n }), { signal: controller.signal });
    const stays = group.txn(create('b', { lease: 7n }));
    await endOfTurn();
    controller.abort('enough');
    await expect(gaveUp).rejects.toBe('enough');
    await applyAll();
    await expect(stays).resolves.toMatchObject({ succeeded: true });
  });

  test('for the load, or its size: smaller ones, after a pause, and no burst', async () => {
    const calls = Array.from({ length: 100 }, (_, at) => group.txn(create(`k${at}`), { timeoutMs: 60_000 }));
    await endOfTurn();
    arrived.shift()?.fail(refused('limit-exceeded'));
    await endOfTurn();
    expect(arrived).toEqual([]);
    await clock.advance(30);
    expect(arrived).toEqual([]);
    await clock.advance(25);
    expect(arrived.map((each) => keysOf(each).length)).toEqual([50, 50]);
    await applyAll();
    await Promise.all(calls);
  });

  test('that waits out the time of a member is a refusal, not an unknown outcome', async () => {
    const calls = ['a', 'b'].map((key) => group.txn(create(key), { timeoutMs: 20 }));
    const outcomes = Promise.allSettled(calls);
    await endOfTurn();
    arrived[0]?.fail(refused('limit-exceeded'));
    await endOfTurn();
    await clock.advance(20);
    for (const outcome of await outcomes)
      expect(outcome).toMatchObject({ reason: { code: 'unreachable', outcome: 'rejected' } });
  });

  test('because etcd cannot be reached, or our login is no good, is told to all', async () => {
    for (const code of ['unreachable', 'unauthenticated'] as const) {
      const outcomes = Promise.allSettled([group.txn(create('a')), group.txn(create('b'))]);
      await endOfTurn();
      arrived.shift()?.fail(refused(code));
      for (const outcome of await outcomes)
        expect(outcome).toMatchObject({ reason: { code, outcome: 'rejected' } });
      expect(arrived).toEqual([]);
    }
  });
});

test('a batch whose reply is lost is unknown to each member, with an error of its own', async () => {
  const outcomes = Promise.allSettled(['a', 'b'].map((key) => group.txn(create(key))));
  await endOfTurn();
  arrived[0]?.fail(new LockkeeperError('unreachable', 'txn on x: no answer'));
  const [a, b] = (await outcomes).map((each) => (each.status === 'rejected' ? each.reason : undefined));
  expect(a).toMatchObject({
    code: 'unreachable',
    outcome: 'unknown',
    message: /no answer \(in a batch of 2\)/,
  });
  expect(b).toMatchObject({ code: 'unreachable', outcome: 'unknown' });
  expect(a).not.toBe(b);
});

describe('one of many', () => {
  test('that gives up before it was sent is never sent', async () => {
    const controller = new AbortController();
    const calls = [group.txn(create('1')), group.txn(create('2'))];
    let unsent = 0;
    const onUnsent = () => {
      unsent += 1;
    };
    const gone = group.txn(create('gone'), { signal: controller.signal, onUnsent });
    calls.push(group.txn(create('stays')));
    controller.abort('enough');
    await expect(gone).rejects.toBe('enough');
    expect(unsent).toBe(1);
    await applyAll();
    await Promise.all(calls);
    expect(await below.range({ key: 'gone' })).toMatchObject({ count: 0 });
  });

  test('that gives up later leaves the others; when all have, the batch is given up', async () => {
    const [one, other] = [new AbortController(), new AbortController()];
    const onUnsent = () => expect.unreachable('it was sent');
    const calls = [one, other].map(({ signal }, at) => group.txn(create(`k${at}`), { signal, onUnsent }));
    const outcomes = Promise.allSettled(calls);
    await endOfTurn();
    one.abort('enough');
    await expect(calls[0]).rejects.toBe('enough');
    expect(arrived[0]?.options?.signal?.aborted).toBe(false);
    other.abort('enough too');
    await outcomes;
    expect(arrived[0]?.options?.signal?.aborted).toBe(true);
  });

  test('has its own time: unknown if it was sent, rejected if not, and the others go on', async () => {
    const sent = group.txn(create('sent'), { timeoutMs: 100 });
    const long = group.txn(create('long'), { timeoutMs: 1_000 });
    await endOfTurn();
    const second = group.txn(create('second'));
    await endOfTurn();
    const queued = group.txn(create('queued'), { timeoutMs: 100 });
    const outcomes = Promise.allSettled([sent, queued]);
    await endOfTurn();
    expect(arrived.map(keysOf)).toEqual([['sent', 'long'], ['second']]);
    expect(arrived[0]?.options?.timeoutMs).toBe(1_000);
    await clock.advance(100);
    expect(await outcomes).toMatchObject([
      { reason: { code: 'unreachable', outcome: 'unknown' } },
      { reason: { code: 'unreachable', outcome: 'rejected' } },
    ]);
    await applyAll();
    await Promise.all([long, second]);
    expect(await below.range({ key: 'queued' })).toMatchObject({ count: 0 });
  });
});

test('close() ends what is refused in that very turn, and to be taken apart', async () => {
  const replies = ['a', 'b'].map((key) => group.txn(create(key)));
  await endOfTurn();
  arrived[0]?.fail(new LockkeeperError('permission-denied', 'not for you'));
  void group.close();
  for (const reply of replies)
    await expect(reply).rejects.toMatchObject({ code: 'closed', outcome: 'rejected' });
});

test.each([
  ['a lease that is no bigint', { op: 'put', key: 'b', value: 'x', lease: 5 }],
  ['an operation of no kind', { op: 'increment', key: 'b' }],
])('%s is sent alone, and harms nobody else', async (_, operation) => {
  const bad = { compare: [], success: [operation as unknown as Operation], failure: [] };
  const replies = [create('a'), bad, create('c')].map((txn) => group.txn(txn));
  await endOfTurn();
  expect(arrived).toHaveLength(2);
  expect(arrived.some(({ txn }) => txn === bad)).toBe(true);
  for (const each of arrived) each.fail(new LockkeeperError('unreachable', 'over'));
  await Promise.allSettled(replies);
});

test('close() rejects what was not sent', async () => {
  for (const key of ['a', 'b']) {
    void group.txn(create(key));
    await endOfTurn();
  }
  const queued = group.txn(create('c'));
  const outcome = Promise.allSettled([queued]);
  await endOfTurn();
  const closed = group.close();
  expect(await outcome).toMatchObject([{ reason: { code: 'closed', outcome: 'rejected' } }]);
  await closed;
  expect(arrived.map(keysOf)).toEqual([['a'], ['b']]);
});

async function applyAll(): Promise<void> {
  for (;;) {
    await endOfTurn();
    const each = arrived.shift();
    if (each === undefined) return;
    await each.apply();
  }
}
