// One client as all guards on it share it: the numbers of its runs, and the way of a script to Redis and back.
import { randomBytes } from 'node:crypto';
import { GuardError } from '@lockkeeper/fencing';
import { onAbort } from '../abort.ts';
import { type Link, linkTo } from './client.ts';
import type { Word } from './effect.ts';
import { type ErrorContext, failure, isUnsent, make, replyCode } from './errors.ts';
import { SCRIPT, SCRIPT_SHA } from './script.ts';

export interface Wait {
  /** How many replicas have to acknowledge. */
  readonly replicas: number;
  /** How long they may take, in milliseconds. */
  readonly timeoutMs: number;
}

export interface ReadOptions {
  readonly signal: AbortSignal | undefined;
  readonly timeoutMs: number;
  readonly context: ErrorContext;
}

export interface SendOptions extends ReadOptions {
  readonly wait: Wait | undefined;
  /** It can be asked again at will, so where others are `unknown` this is `unavailable`, or the signal's reason. */
  readonly harmless: boolean;
}

/** A verb on its way: the words before the place of the run's number, and those after it. */
export interface Call {
  readonly keys: readonly string[];
  readonly verb: string;
  readonly token: string;
  /** `run`: numbered, where the client may send it again. */
  readonly third: 'run' | string;
  readonly rest: readonly Word[];
}

/** The script's answer, and whether it may be the answer to a later copy of what was sent. */
export interface Answer {
  readonly words: readonly unknown[];
  readonly mayBeCopy: boolean;
}

/** Of so many records a client knows which run it sent last; of others it may not know a copy again. */
const REMEMBERED_RECORDS = 1_000;

const lines = new WeakMap<object, Line>();

export class Line {
  readonly link: Link;
  /** Whether eviction was looked at on this client. */
  evictionChecked = false;
  /** Random, so that no two clients are ever taken for one. */
  readonly #writer = randomBytes(9).toString('base64url');
  #lastRun = 0;
  /** The number of the last run on each record, the one that was used longest ago first. */
  readonly #lastOn = new Map<string, number>();

  private constructor(link: Link) {
    this.link = link;
  }

  static of(client: unknown): Line {
    const link = linkTo(client);
    const known = lines.get(link.client);
    if (known !== undefined) return known;
    const line = new Line(link);
    lines.set(link.client, line);
    return line;
  }

  /** Carries one script there and its answer back. Whatever it rejects with is a GuardError, or the signal's reason. */
  async script(call: Call, options: SendOptions): Promise<Answer> {
    const trip = this.#trip(options) ?? (await this.#tripWhenReady(options));
    try {
      const answer = await trip.outcome(this.#ask('evalsha', SCRIPT_SHA, call, options), (error) => {
        // A copy may find a server that took over and lacks the script, after the first one was carried out.
        if (replyCode(error) !== 'NOSCRIPT' || (trip.mayBeCopy && call.third === 'run')) return undefined;
        return this.#ask('eval', SCRIPT, call, options);
      });
      if (Array.isArray(answer)) return { words: answer, mayBeCopy: trip.mayBeCopy };
      const what = `the reply was ${String(answer)}; the client is inside a MULTI, which decides`;
      throw make('unknown', what, undefined, options.context);
    } finally {
      trip.end();
    }
  }

  /** Carries one command that only reads. What Redis itself answers, also an error, comes out untouched. */
  async read(key: string, words: readonly Word[], reading: ReadOptions): Promise<unknown> {
    const options = { ...reading, wait: undefined, harmless: true };
    const trip = this.#trip(options) ?? (await this.#tripWhenReady(options));
    try {
      const asked = this.link.send(key, words).then(
        (value) => ({ value }),
        (error: unknown) => {
          if (replyCode(error) === undefined) throw error;
          return { error };
        },
      );
      const reply = await trip.outcome(asked);
      if ('error' in reply) throw reply.error;
      return reply.value;
    } finally {
      trip.end();
    }
  }

  #ask(command: string, script: string, call: Call, { wait, context }: SendOptions): Promise<unknown> {
    const { keys, verb, token, third, rest } = call;
    // Numbered as it is sent: in that order it arrives.
    const record = keys[0] as string;
    const place = third === 'run' ? this.#number(record) : third;
    const words = [command, script, `${keys.length}`, ...keys, verb, token, place, ...rest];
    return wait ? this.#askAndWait(record, words, wait, context) : this.link.send(record, words);
  }

  #number(record: string): string {
    const { resends } = this.link;
    if (resends === 'never') return '';
    this.#lastRun += 1;
    const number = this.#lastRun;
    if (resends === 'in any order') return `${this.#writer};${number};0`;
    const before = this.#lastOn.get(record) ?? 0;
    this.#lastOn.delete(record);
    this.#lastOn.set(record, number);
    for (const oldest of this.#lastOn.keys()) {
      if (this.#lastOn.size <= REMEMBERED_RECORDS) break;
      this.#lastOn.delete(oldest);
    }
    return `${this.#writer};${number};${before}`;
  }

  /**
   * WAIT speaks of what came before it on the same connection. A client that reconnects in between asks on another
   * one, perhaps of another server: so the connection tells its name before and after. All four leave together.
   */
  async #askAndWait(record: string, words: Word[], wait: Wait, context: ErrorContext): Promise<unknown> {
    const name = () => this.link.send(undefined, ['client', 'info']);
    const [before, answer, count, after] = await Promise.allSettled([
      name(),
      this.link.send(record, words),
      this.link.send(undefined, ['wait', `${wait.replicas}`, `${wait.timeoutMs}`]),
      name(),
    ]);
    if (answer.status === 'rejected') throw answer.reason;
    const done = Array.isArray(answer.value) && ['ok', 'repeated'].includes(String(answer.value[0]));
    if (!done) return answer.value;
    const nameIn = (info: PromiseSettledResult<unknown>) =>
      info.status === 'fulfilled' ? /^id=\d+ addr=\S+/.exec(String(info.value))?.[0] : undefined;
    const isSame = nameIn(before) !== undefined && nameIn(before) === nameIn(after);
    if (isSame && count.status === 'fulfilled' && Number(count.value) >= wait.replicas) return answer.value;
    const known = isSame && count.status === 'fulfilled' ? Number(count.value) : 'nobody knows how many';
    const what = `applied by the primary, but ${known} of ${wait.replicas} replicas acknowledged it`;
    const cause = count.status === 'rejected' ? count.reason : undefined;
    throw make('unknown', `${what} within wait.timeoutMs ${wait.timeoutMs}`, cause, context);
  }

  /** `undefined` where the client has no connection yet. */
  #trip(options: SendOptions): Trip | undefined {
    options.signal?.throwIfAborted();
    const refusal = this.link.refusal();
    if (refusal !== undefined) throw make('invalid-option', `client ${refusal}`, undefined, options.context);
    return this.link.state() === 'ready' ? new Trip(this.link, options) : undefined;
  }

  /** Waits until the client can send, so that nothing is left in its queue by a call that gave up. */
  async #tripWhenReady(options: SendOptions): Promise<Trip> {
    const { signal, timeoutMs, context } = options;
    await new Promise<void>((resolve, reject) => {
      const ends: (() => void)[] = [];
      const settle = (act: () => void) => {
        for (const end of ends.splice(0)) end();
        act();
      };
      const fail = (what: string) =>
        settle(() => reject(make('unavailable', `${what}; nothing was sent`, undefined, context)));
      const look = () => {
        const state = this.link.state();
        if (state === 'ready') settle(resolve);
        if (state === 'closed') fail('the client is closed');
      };
      const timer = setTimeout(() => fail(`no connection within timeoutMs ${timeoutMs}`), timeoutMs);
      ends.push(() => clearTimeout(timer), this.link.onChange(look));
      if (signal) ends.push(onAbort(signal, () => settle(() => reject(signal.reason))));
      look();
    });
    return this.#trip(options) ?? this.#tripWhenReady(options);
  }
}

/** One script on its way. It ends with an answer, the signal, or the time limit; nothing of it stays behind. */
class Trip {
  mayBeCopy = false;
  readonly #options: SendOptions;
  readonly #timer: NodeJS.Timeout;
  readonly #unlisten: () => void;
  #forget: (() => void) | undefined;
  #break: (error: unknown) => void = () => undefined;

  constructor(link: Link, options: SendOptions) {
    this.#options = options;
    const limitMs = options.timeoutMs + (options.wait?.timeoutMs ?? 0);
    this.#timer = setTimeout(() => this.#give(`no reply within ${limitMs} ms`), limitMs);
    this.#unlisten = link.onResend(() => {
      this.mayBeCopy = true;
      if (link.forgets) this.#give('the connection was lost before the reply');
    });
  }

  /** What was asked, or what `again` asks instead where it failed. */
  outcome<T>(asked: Promise<T>, again?: (error: unknown) => Promise<T> | undefined): Promise<T> {
    const { signal, harmless } = this.#options;
    return new Promise<T>((resolve, reject) => {
      this.#break = reject;
      if (signal) {
        const abort = () =>
          harmless
            ? reject(signal.reason)
            : this.#give('the signal aborted after it was sent', signal.reason);
        this.#forget = onAbort(signal, abort);
      }
      const fail = (error: unknown) => reject(this.#judge(error));
      asked.then(resolve, (error: unknown) => {
        const retried = again?.(error);
        if (retried === undefined) fail(error);
        else retried.then(resolve, fail);
      });
    });
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#unlisten();
    this.#forget?.();
  }

  #give(what: string, cause?: unknown): void {
    const { harmless, context } = this.#options;
    const doubt = harmless ? 'nothing was applied' : 'it may have been applied';
    this.#break(make(harmless ? 'unavailable' : 'unknown', `${what}; ${doubt}`, cause, context));
  }

  #judge(error: unknown): GuardError {
    const { context, harmless } = this.#options;
    if (error instanceof GuardError) return error;
    if (isUnsent(error) && !this.mayBeCopy) {
      return make('unavailable', 'the client did not send it; nothing was applied', error, context);
    }
    const failed = failure(error, this.mayBeCopy, context);
    if (!harmless || failed.code !== 'unknown') return failed;
    return make('unavailable', 'the reply was lost; nothing was applied', error, context);
  }
}
