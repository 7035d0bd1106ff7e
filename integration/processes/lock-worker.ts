import { connect } from '@lockkeeper/core';
import { workerChannel } from '@lockkeeper/testkit/worker';
import { lastWord } from '../support/last-word.ts';

/**
 * A process that uses locks, by the job named in its first argument. It reports what etcd granted and never
 * ends by `process.exit`: that it ends at all is part of what the tests look at.
 */
const [job, hosts = '', namespace = '', count = '1'] = process.argv.slice(2);
const { report } = workerChannel();
const ttlMs = 6_000;
/** Of a holder that is killed, for which somebody waits. */
const killedTtlMs = 2_000;

async function hold(): Promise<void> {
  const keeper = await connect({ hosts, namespace, ttlMs: killedTtlMs });
  const held = await keeper.lock('x').acquire();
  await report({ type: 'granted', revision: held.token.revision });
}

async function tryOnce(): Promise<void> {
  await using keeper = await connect({ hosts, namespace, ttlMs });
  await using held = (await keeper.lock('x').tryAcquire()).hold;
  await report({ type: held === undefined ? 'busy' : 'granted' });
}

/**
 * Queues many times at once. What happens inside the lock is written to etcd itself, whose revisions put
 * the beginnings and ends of all processes into one order.
 */
async function contend(): Promise<void> {
  await using keeper = await connect({ hosts, namespace, ttlMs });
  const log = (mark: string, revision: bigint) =>
    keeper.coordinator.txn({
      compare: [],
      success: [{ op: 'put', key: `${namespace}-log/${mark}/${revision}`, value: '' }],
      failure: [],
    });
  const turns = Array.from({ length: Number(count) }, () =>
    keeper.lock('x').using({}, async ({ token }) => {
      await log('begin', token.revision);
      await report({ type: 'begin' });
      await new Promise((resolve) => setTimeout(resolve, 2));
      await report({ type: 'end' });
      await log('end', token.revision);
    }),
  );
  await Promise.all(turns);
  await report({ type: 'done' });
}

async function closeProperly(): Promise<void> {
  const keeper = await connect({ hosts, namespace, ttlMs });
  await keeper.lock('x').using({}, () => undefined);
  const raw = await keeper.lock('left-held').acquire();
  const timedOut = await keeper.lock('x').using({}, () =>
    connect({ hosts, namespace, ttlMs }).then(async (other) => {
      const error = await other
        .lock('x')
        .acquire({ waitTimeoutMs: 1_500 })
        .catch((reason: unknown) => reason);
      await other.close();
      return (error as { code?: string }).code;
    }),
  );
  await keeper.close();
  await report({ type: 'closed', timedOut, standing: raw.standing });
  lastWord();
}

/** No hold, no wait, no close. */
async function idle(): Promise<void> {
  const keeper = await connect({ hosts, namespace, ttlMs });
  await keeper.lock('x').using({}, () => undefined);
  await report({ type: 'idle' });
  lastWord();
}

async function unreachable(): Promise<void> {
  const error = await connect({ hosts, namespace, ttlMs }).catch((reason: unknown) => reason);
  await report({ type: 'failed', code: (error as { code?: string }).code });
}

/** Holds five locks and waits for a signal; `count` says what else the application does. */
async function onSignal(): Promise<void> {
  const keeper = await connect({ hosts, namespace, ttlMs: 60_000 });
  if (count === 'handles') {
    process.once('SIGTERM', () => {
      void report({ type: 'handled' }).then(() => keeper.close().then(() => process.exit(7)));
    });
  }
  keeper.closeOnSignals();
  for (let lock = 0; lock < 5; lock += 1) await keeper.lock(`x${lock}`).acquire();
  if (count === 'stuck') {
    await new Promise<void>((begun) => {
      void keeper.lock('stuck').using({}, () => new Promise(() => begun()));
    });
  }
  if (count === 'two') await slowSecondKeeper();
  await report({ type: 'granted' });
}

/** Its work takes a while to stop. */
async function slowSecondKeeper(): Promise<void> {
  const second = await connect({ hosts, namespace, ttlMs: 60_000 });
  second.closeOnSignals();
  await new Promise<void>((begun) => {
    void second.lock('slow').using({}, async (hold) => {
      begun();
      await new Promise((resolve) => hold.signal.addEventListener('abort', resolve));
      await new Promise((resolve) => setTimeout(resolve, 800));
      await report({ type: 'drained' });
    });
  });
}

const jobs: Record<string, () => Promise<void>> = {
  hold,
  tryOnce,
  contend,
  closeProperly,
  idle,
  unreachable,
  onSignal,
};
await jobs[job ?? '']?.();
