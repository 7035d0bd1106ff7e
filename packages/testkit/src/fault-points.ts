// The moments of a coordinator's calls at which a test can step in, and what it sees there.
import type {
  CallOptions,
  Clock,
  GrantReply,
  GrantRequest,
  Operation,
  OperationResult,
  Txn,
  TxnReply,
  WatchEvent,
  WatchRequest,
} from '@lockkeeper/core';
import { LockkeeperError } from '@lockkeeper/core';

/** The calls of a coordinator that are answered once. */
export type CoordinatorVerb = 'describe' | 'grant' | 'renew' | 'timeToLive' | 'revoke' | 'txn' | 'range';

/** Every fault point, with what is known when it is reached. */
export interface FaultPoints {
  /** A call is about to be sent; what is thrown here keeps it from being sent. */
  readonly beforeSend: { readonly verb: CoordinatorVerb; readonly txn: Txn | undefined };
  /** A lease was granted, and the caller does not know yet. */
  readonly afterGrant: { readonly request: GrantRequest; readonly reply: GrantReply };
  /** A transaction took effect and put at least one key, and the caller does not know yet. */
  readonly afterPut: { readonly txn: Txn; readonly reply: TxnReply };
  /** Any call was answered, and the caller does not know yet. Refusals are not seen here. */
  readonly beforeReply: { readonly verb: CoordinatorVerb; readonly reply: unknown };
  /** A watch has events, and its owner does not know yet. */
  readonly onWatch: { readonly request: WatchRequest; readonly events: readonly WatchEvent[] };
}

export type FaultPoint = keyof FaultPoints;

/** What a test does at a fault point: see {@link FaultyCoordinator.at}. */
export type FaultAct<P extends FaultPoint> = (moment: FaultPoints[P]) => unknown;

type Acts = { [P in FaultPoint]: Set<FaultAct<P>> };

const CALL_POINTS: readonly FaultPoint[] = ['beforeSend', 'afterGrant', 'afterPut', 'beforeReply'];

/** Who steps in where. */
export class FaultActs {
  readonly #acts: Acts = {
    beforeSend: new Set(),
    afterGrant: new Set(),
    afterPut: new Set(),
    beforeReply: new Set(),
    onWatch: new Set(),
  };

  /** Whether anybody steps in at this point, or at any of a call's. */
  any(point?: FaultPoint): boolean {
    const points = point === undefined ? CALL_POINTS : [point];
    return points.some((one) => this.#acts[one].size > 0);
  }

  /** @returns what takes it off. */
  add<P extends FaultPoint>(point: P, act: FaultAct<P>): () => void {
    const acts: Set<FaultAct<P>> = this.#acts[point];
    // The same function may step in twice.
    const own: FaultAct<P> = (moment) => act(moment);
    acts.add(own);
    return () => void acts.delete(own);
  }

  /** Runs those who step in here, one after the other; rejects with what one of them throws. */
  async reach<P extends FaultPoint>(point: P, moment: FaultPoints[P]): Promise<void> {
    const acts: Set<FaultAct<P>> = this.#acts[point];
    for (const act of [...acts]) await act(moment);
  }
}

/** Whether a transaction put a key, in itself or in a transaction inside it. */
export function hasPut(txn: Txn, { succeeded, results }: Pick<TxnReply, 'succeeded' | 'results'>): boolean {
  const ran = succeeded ? txn.success : txn.failure;
  return ran.some((operation, index) => putsIn(operation, results[index]));
}

function putsIn(operation: Operation, result: OperationResult | undefined): boolean {
  if (operation.op === 'put') return true;
  return operation.op === 'txn' && result?.op === 'txn' && hasPut(operation, result);
}

/** The wait of a caller who keeps to his options, whatever becomes of the answer. */
export function within<T>(clock: Clock, verb: string, options: CallOptions, answer: Promise<T>): Promise<T> {
  const { signal, timeoutMs = 5_000 } = options;
  return new Promise((resolve, reject) => {
    const onAbort = () => end(() => reject(signal?.reason));
    const late = new LockkeeperError(
      'unreachable',
      `${verb}: no reply within ${timeoutMs} ms (fault injected)`,
    );
    const timer = clock.setTimer(timeoutMs, () => end(() => reject(late)));
    const end = (settle: () => void) => {
      timer.cancel();
      signal?.removeEventListener('abort', onAbort);
      settle();
    };
    signal?.addEventListener('abort', onAbort, { once: true });
    if (signal?.aborted) onAbort();
    answer.then(
      (reply) => end(() => resolve(reply)),
      (error: unknown) => end(() => reject(error)),
    );
  });
}
