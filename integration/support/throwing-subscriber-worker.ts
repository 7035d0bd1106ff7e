import { subscribe } from 'node:diagnostics_channel';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type TelemetryEvents } from '@lockkeeper/core';
import { memoryCoordinator, memoryStore } from '@lockkeeper/core/memory';
import { workerChannel } from '@lockkeeper/testkit/worker';

/** A process that subscribes to everything and throws at every event, and whose locks work all the same. */
const CHANNELS: readonly (keyof TelemetryEvents)[] = [
  'lockkeeper:session:opened',
  'lockkeeper:session:renewed',
  'lockkeeper:session:renewal-failed',
  'lockkeeper:session:suspect',
  'lockkeeper:session:recovered',
  'lockkeeper:session:lost',
  'lockkeeper:lock:queued',
  'lockkeeper:lock:granted',
  'lockkeeper:lock:gave-up',
  'lockkeeper:lock:lost',
  'lockkeeper:lock:released',
  'lockkeeper:process:stalled',
];
const names: string[] = [];
const uncaught: string[] = [];
process.on('uncaughtException', (error) => uncaught.push(error.message));
for (const channel of CHANNELS) {
  subscribe(channel, (_, name) => {
    names.push(String(name));
    throw new Error(`thrown at ${String(name)}`);
  });
}

const store = memoryStore();
const [keeper, other] = await Promise.all(
  [1, 2].map(() => connect({ coordinator: memoryCoordinator({ store }), namespace: 'n', ttlMs: 4_500 })),
);
if (keeper === undefined || other === undefined) throw new Error('two keepers were asked for');
const hold = await keeper.lock('x').acquire();
const standing: string[] = [hold.standing];
await other.lock('x').tryAcquire();
const waiting = other.lock('x').acquire();
await sleep(2_000);
standing.push(hold.standing);
const release = (await hold.release()).outcome;
const next = await waiting;
const nextStanding = next.standing;
await sleep(400);
await keeper.coordinator.txn({
  compare: [],
  success: [{ op: 'delete', key: 'n/lock/x/', rangeEnd: 'n/lock/x0' }],
  failure: [],
});
const { signal } = next;
if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve));
standing.push(next.standing);
const cause = signal.reason.lossCause as string;
await Promise.all([keeper.close(), other.close()]);
await sleep(50);
await workerChannel().report({
  type: 'done',
  standing,
  release,
  next: nextStanding,
  cause,
  names,
  uncaught,
});
