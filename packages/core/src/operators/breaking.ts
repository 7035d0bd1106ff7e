import type { FencingToken } from '@lockkeeper/fencing';
import type { CallOptions, Compare, Coordinator } from '../coordinator/coordinator.ts';
import { LockkeeperError } from '../errors.ts';
import { BackOff } from '../lock/back-off.ts';
import type { Logger } from '../options.ts';
import type { OperatorHost } from './inspection.ts';
import { type Sealable, type Sealing, sealGuards } from './seal-guards.ts';

/** `not-found`: nobody stands in the queue by that token (any more). */
export type BreakAnswer =
  | {
      readonly outcome: 'broken';
      /** The resources of the guards that could not be sealed; empty unless `force` was asked for. */
      readonly unsealed: readonly string[];
    }
  | { readonly outcome: 'not-found' };

/** Whose place is taken. */
export interface BreakTarget {
  /** For messages: `lock "x"`. */
  readonly title: string;
  /** The text by which the operator named it. */
  readonly token: string;
  /** @returns what stands there now; `undefined`: nothing by that token. */
  find(coordinator: Coordinator, call: CallOptions): Promise<Found | undefined>;
}

/** A contender as one look found it. */
export interface Found {
  /**
   * What it may write by (its token, and that of the reader that a writer may become), and where; `undefined`: it waits.
   */
  readonly held:
    | { readonly tokens: readonly FencingToken[]; readonly guards: readonly Sealable[] }
    | undefined;
  /** True as long as it stands there just so; whoever waits must not have come to hold meanwhile. */
  readonly compare: readonly Compare[];
  /** All that is its own, of which the first is where it stands. */
  readonly keys: readonly string[];
}

/** One break: look, seal where it holds, delete exactly what was found; again until it is certain. */
export class Breaking {
  readonly #coordinator: Coordinator;
  readonly #logger: Logger;
  readonly #target: BreakTarget;
  readonly #sealing: Sealing;
  readonly #timeoutMs: number;
  readonly #signal: AbortSignal;
  #until: number;
  /** Whether a deletion was sent whose reply never came. */
  #unanswered = false;

  constructor(
    { options: { coordinator, logger } }: OperatorHost,
    target: BreakTarget,
    sealing: Sealing,
    timeoutMs: number,
    signal: AbortSignal,
  ) {
    this.#coordinator = coordinator;
    this.#logger = logger;
    this.#target = target;
    this.#sealing = sealing;
    this.#timeoutMs = timeoutMs;
    this.#signal = signal;
    this.#until = coordinator.clock.now() + timeoutMs;
  }

  async run(): Promise<BreakAnswer> {
    let unsealed: readonly string[] | undefined;
    for (;;) {
      const found = await this.#untilAnswered((call) => this.#target.find(this.#coordinator, call));
      // What a lost reply left open is answered by the key's absence; nothing speaks for another cause.
      if (found === undefined) return this.#unanswered ? this.#broken(unsealed) : { outcome: 'not-found' };
      // A waiter has written nothing; its seal would refuse all who came before it.
      if (found.held !== undefined && unsealed === undefined) unsealed = await this.#seal(found.held);
      if (await this.#untilAnswered((call) => this.#delete(found, call))) return this.#broken(unsealed);
    }
  }

  #broken(unsealed: readonly string[] = []): BreakAnswer {
    const { title, token } = this.#target;
    this.#logger.info({ lock: title, token, unsealed }, 'a lock was broken');
    return { outcome: 'broken', unsealed };
  }

  async #seal({ guards, tokens }: NonNullable<Found['held']>): Promise<readonly string[]> {
    const { clock } = this.#coordinator;
    const what = `${this.#target.title}: token ${this.#target.token}`;
    const unsealed = await sealGuards(clock, guards, this.#sealing, what, tokens, this.#signal);
    this.#until = clock.now() + this.#timeoutMs;
    return unsealed;
  }

  /** A copy that arrives late can touch nothing else. */
  async #delete({ compare, keys }: Found, call: CallOptions): Promise<boolean> {
    const [place = ''] = keys;
    try {
      const { succeeded } = await this.#coordinator.txn(
        {
          compare,
          success: keys.map((key) => ({ op: 'delete', key })),
          // A transaction that decides something holds a range, so that it is answered with a quorum.
          failure: [{ op: 'range', key: place, keysOnly: true }],
        },
        call,
      );
      return succeeded;
    } catch (error) {
      if (!(error instanceof LockkeeperError) || error.outcome === 'unknown') this.#unanswered = true;
      throw error;
    }
  }

  /**
   * Asks again while etcd cannot be reached, within the time. A deletion that was carried out already finds nothing
   * when it is repeated.
   */
  async #untilAnswered<T>(ask: (call: CallOptions) => Promise<T>): Promise<T> {
    const { clock } = this.#coordinator;
    const backOff = new BackOff(clock);
    for (;;) {
      this.#signal.throwIfAborted();
      const leftMs = Math.max(0, this.#until - clock.now());
      try {
        return await ask({ signal: this.#signal, timeoutMs: Math.min(leftMs, Math.max(500, leftMs / 2)) });
      } catch (error) {
        this.#signal.throwIfAborted();
        if (!(error instanceof LockkeeperError && error.code === 'unreachable')) throw error;
        if (clock.now() >= this.#until) throw this.#unreachable(error);
      }
      await backOff.wait(this.#signal);
    }
  }

  #unreachable(cause: LockkeeperError): LockkeeperError {
    const outcome = this.#unanswered ? 'unknown' : 'rejected';
    const known = this.#unanswered ? 'may or may not be broken' : 'is not broken';
    const { title, token } = this.#target;
    const text = `${title}: token ${token} ${known}: ${cause.message}`;
    return new LockkeeperError('unreachable', text, { cause, outcome });
  }
}
