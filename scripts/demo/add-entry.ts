// The work under the lock, as an application would write it. Both workers run exactly this.
import type { Hold, Lock } from '@lockkeeper/core';
import { LockkeeperError } from '@lockkeeper/core';
import { GuardError } from '@lockkeeper/fencing';
import type { Account } from './account.ts';
import type { Fact, WorkerName } from './story.ts';

/** One entry to be added to an account. */
export interface Entry {
  readonly id: string;
  readonly amount: number;
}

export interface Surroundings<Handle> {
  readonly who: WorkerName;
  readonly lock: Lock;
  readonly account: Account<Handle>;
  readonly report: (fact: Fact) => void;
  /** Stands between the check and the write. That is where the demo interferes, the first time. */
  readonly beforeWrite: () => Promise<void>;
}

/**
 * Adds the entry, and starts over with a new token when the guard refuses the one it had. Resolves however
 * it went: what happened was reported.
 */
export async function addEntry<Handle>(entry: Entry, at: Surroundings<Handle>): Promise<void> {
  try {
    if (await attempt(entry, at)) return;
    await attempt(entry, { ...at, beforeWrite: async () => {} });
  } catch (error) {
    const code = error instanceof GuardError || error instanceof LockkeeperError ? error.code : 'error';
    at.report({ who: at.who, kind: 'failed', code, message: String(error) });
  }
}

/** @returns whether the entry is in the account; `false` when the guard refused it. */
async function attempt<Handle>(entry: Entry, at: Surroundings<Handle>): Promise<boolean> {
  const { lock, account } = at;
  const claims = account.guard === undefined ? [] : [account.guard];
  try {
    await lock.using({ waitTimeoutMs: 30_000, claims }, (hold) => readComputeWrite(entry, hold, at));
    return true;
  } catch (error) {
    // The entry was applied, and the lock turned out to have been lost meanwhile. Reported by the signal.
    if (error instanceof LockkeeperError && error.code === 'lost') return true;
    if (!(error instanceof GuardError && error.outcome === 'rejected')) throw error;
    return false;
  }
}

async function readComputeWrite<Handle>(entry: Entry, hold: Hold, at: Surroundings<Handle>): Promise<void> {
  const { who, account, report, beforeWrite } = at;
  const { guard } = account;
  const token = `${hold.token}`;
  report({ who, kind: 'acquired', token, claimed: guard !== undefined });
  hold.signal.addEventListener('abort', () => report({ who, kind: 'lost', token, ...lossOf(hold) }), {
    once: true,
  });

  const { balance, entries } = await account.read();
  report({ who, kind: 'read', balance });

  const next = { balance: balance + entry.amount, entries: [...entries, entry.id] };
  hold.assertHeld();
  report({ who, kind: 'checked', remainingMs: Math.round(hold.remainingMs()) });

  await beforeWrite();

  report({ who, kind: 'sent', token, balance: next.balance });
  try {
    if (guard === undefined) await account.write(next, account.direct);
    else await guard.run(hold.token, (tx) => account.write(next, tx));
  } catch (error) {
    if (error instanceof GuardError && error.outcome === 'rejected') {
      const { code, message, current } = error;
      report({
        who: 'storage',
        kind: 'refused',
        of: who,
        token,
        inForce: current?.toString(),
        code,
        message,
      });
    }
    throw error;
  }
  const { id, amount } = entry;
  report({ who: 'storage', kind: 'applied', of: who, token, entry: id, amount, balance: next.balance });
}

function lossOf(hold: Hold): { reason: string; message: string } {
  const { reason } = hold.signal;
  if (!(reason instanceof LockkeeperError)) return { reason: 'unknown', message: String(reason) };
  return { reason: reason.lossCause ?? reason.code, message: reason.message };
}
