import type { CallOptions, Coordinator } from '../coordinator/coordinator.ts';
import type { AbortSignalLike } from '../signals.ts';

/** Leases asked after at once. */
const LOOKUPS_AT_ONCE = 8;

/** How long each of them lives on. A lease that etcd does not tell of leaves the rest of the picture as it is. */
export async function readTimes(
  coordinator: Coordinator,
  leases: ReadonlySet<bigint>,
  call: CallOptions & { readonly signal: AbortSignalLike },
): Promise<{ leftMs: Map<bigint, number>; warnings: string[] }> {
  const leftMs = new Map<bigint, number>();
  const left = [...leases].filter((lease) => lease !== 0n);
  const asked = left.length;
  let untold = 0;
  let why: unknown;
  const work = async (): Promise<void> => {
    for (let lease = left.pop(); lease !== undefined; lease = left.pop()) {
      try {
        const time = await coordinator.timeToLive(lease, call);
        if (time !== undefined) leftMs.set(lease, time.ttlMs);
      } catch (error) {
        call.signal.throwIfAborted();
        untold += 1;
        why = error;
        // Where one cannot be had the others would only take as long again.
        untold += left.splice(0).length;
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(LOOKUPS_AT_ONCE, left.length) }, work));
  if (untold === 0) return { leftMs, warnings: [] };
  const message = why instanceof Error ? why.message : String(why);
  return {
    leftMs,
    warnings: [`etcd did not tell how long ${untold} of ${asked} leases live on: ${message}`],
  };
}
