import type { Inspection, Keeper, LockKind } from '@lockkeeper/core';
import { TestkitError } from './errors.ts';
import { checkMs } from './options.ts';

/** Taken when the file is loaded: fake timers that a test installs later must not stop a wait. */
const { setTimeout, performance } = globalThis;

const now = performance.now.bind(performance);

export interface WaitOptions {
  /** For a test that would fail anyway, so far above what is normal. Real time. Default 30,000. */
  readonly timeoutMs?: number | undefined;
}

export interface QueueWaitOptions<Kind extends LockKind = LockKind> extends WaitOptions {
  /** Default `lock`. */
  readonly kind?: Kind | undefined;
}

/**
 * Waits for a fact that can be observed, looking every 20 ms, also while a test's fake timers stand still.
 * @param fact what is waited for, for the message.
 * @throws {@link TestkitError} `timeout`, `invalid-option`; and what `holds` throws.
 */
export async function waitUntil(
  fact: string,
  holds: () => boolean | Promise<boolean>,
  options: WaitOptions = {},
): Promise<void> {
  const timeoutMs = checkMs('timeoutMs', options.timeoutMs, 30_000);
  const deadline = now() + timeoutMs;
  while (!(await holds())) {
    if (now() > deadline) throw new TestkitError('timeout', `not within ${timeoutMs} ms: ${fact}`);
    await new Promise<void>((resolve) => setTimeout(resolve, 20));
  }
}

/**
 * Waits until `count` contenders or more wait for a lock, those who hold it not counted, so that their order
 * is settled: on etcd and in memory, in real and in virtual time.
 *
 * @param keeper any keeper of the namespace.
 * @returns who holds and who waits.
 * @throws {@link TestkitError} `timeout`; what `keeper.inspect` throws.
 */
export async function waitUntilQueued<Kind extends LockKind = 'lock'>(
  keeper: Pick<Keeper, 'inspect'>,
  name: string,
  count: number,
  { kind, timeoutMs }: QueueWaitOptions<Kind> = {},
): Promise<Inspection<Kind>> {
  if (!Number.isInteger(count) || count < 1 || count > 999) {
    throw new TestkitError('invalid-option', `count is ${count}; expected 1 to 999`);
  }
  let seen: Inspection<Kind> | undefined;
  const queued = async () => {
    seen = await keeper.inspect(name, { kind, limit: 1_000 });
    return seen.waiters.length >= count;
  };
  try {
    await waitUntil(`${count} contenders wait for "${name}"`, queued, { timeoutMs });
  } catch (error) {
    if (!(error instanceof TestkitError) || error.code !== 'timeout') throw error;
    throw new TestkitError('timeout', `${error.message}; ${seen?.waiters.length ?? 0} do`);
  }
  return seen as Inspection<Kind>;
}
