import type { History } from '@lockkeeper/testkit';

/** What a process has been through since it acquired. */
interface Hold {
  stoppedMs: number;
  overtaken: boolean;
}

/**
 * When writes came late: their process was stopped, since it had acquired, for longer than the lease lasts, and another
 * one has written meanwhile. Whether they were applied or refused makes no difference.
 */
export function lateWrites(history: History, ttlMs: number): readonly number[] {
  const times: number[] = [];
  const holds = new Map<string, Hold>();
  const stoppedAt = new Map<string, number>();
  const invoked = new Map<string, string>();
  for (const event of history) {
    const { process, atMs } = event;
    const hold = holds.get(process);
    if (event.type === 'info') {
      if (event.f === 'pause') stoppedAt.set(process, atMs);
      if (event.f === 'resume' && hold) hold.stoppedMs += atMs - (stoppedAt.get(process) ?? atMs);
    } else if (event.type === 'invoke') {
      invoked.set(`${process} ${event.op}`, event.f);
    } else {
      const f = invoked.get(`${process} ${event.op}`);
      if (f === 'acquire' && event.type === 'ok') holds.set(process, { stoppedMs: 0, overtaken: false });
      if (f === 'release') holds.delete(process);
      if (f !== 'write') continue;
      if (hold?.overtaken && hold.stoppedMs > ttlMs) times.push(atMs);
      if (event.type === 'ok') {
        for (const [other, theirs] of holds) theirs.overtaken ||= other !== process;
      }
    }
  }
  return times;
}
