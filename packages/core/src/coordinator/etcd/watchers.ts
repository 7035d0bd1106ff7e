import { ExponentialBackoff } from 'cockatiel';
import type { Clock } from '../../clock.ts';
import { LockkeeperError } from '../../errors.ts';
import { invalidOption } from '../../validation.ts';
import type { KeySpan, Watch, WatchEvent, WatchHandler, WatchRequest } from '../coordinator.ts';
import type { Endpoint } from './endpoint.ts';
import type { Endpoints } from './endpoints.ts';
import { type Failure, toError, verdictOnReason } from './failure.ts';
import { closedError, type PendingCalls } from './pending-calls.ts';
import type { WatchReply } from './watch-messages.ts';
import { type WatchListener, WatchStream } from './watch-stream.ts';

/** One watch that somebody asked for. There may be tens of thousands. */
class Watcher implements Watch {
  readonly key: string;
  readonly rangeEnd: string | undefined;
  readonly handler: WatchHandler;
  /** Whether it has been on a stream. */
  attached = false;
  /** The first revision whose events are still wanted. */
  next: bigint;
  id: number | undefined;
  readonly #all: Watchers;

  constructor({ key, rangeEnd, startRevision }: WatchRequest, handler: WatchHandler, all: Watchers) {
    this.key = key;
    this.rangeEnd = rangeEnd;
    this.handler = handler;
    this.next = startRevision;
    this.#all = all;
  }

  close(): void {
    this.#all.remove(this);
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

export interface WatchersOptions {
  readonly clock: Clock;
  readonly endpoints: Endpoints;
  readonly pending: PendingCalls;
  readonly connectTimeoutMs: number;
  /** Told of every revision that a member reports; answers whether the cluster has been further already. */
  readonly observe: (revision: bigint) => 'new' | 'behind';
  /** A linearizable read, to learn whether a member that is behind lags or has lost its data. */
  readonly read: (span: KeySpan) => Promise<unknown>;
}

/** How long a stream whose member failed a call may take to show that it lives. */
const DOUBT_LIMIT_MS = 1_000;
const RECONNECT = new ExponentialBackoff({ initialDelay: 50, maxDelay: 1_000 });

/**
 * All watchers of a coordinator, on one stream at a time. When the stream goes down, all of them go on
 * together on the next member, each from the revision after the last event it was given: no event is lost
 * and none is given twice.
 */
export class Watchers implements WatchListener<Watcher> {
  readonly #options: WatchersOptions;
  readonly #watchers = new Set<Watcher>();
  #stream: WatchStream<Watcher> | undefined;
  #running = false;
  #readingAgain = false;
  #staleLogins = 0;

  constructor(options: WatchersOptions) {
    this.#options = options;
  }

  watch(request: WatchRequest, handler: WatchHandler): Watch {
    const { key, startRevision } = request;
    if (startRevision < 1n) throw invalidOption('startRevision', startRevision, 'expected at least 1');
    if (key === '') throw invalidOption('key', key, 'expected a key that is not empty');
    const watcher = new Watcher(request, handler, this);
    this.#watchers.add(watcher);
    if (this.#options.pending.closed) queueMicrotask(() => this.#end(watcher, closedError('rejected')));
    else if (this.#stream !== undefined) this.#attach(watcher, this.#stream);
    else void this.#run();
    return watcher;
  }

  /** Idempotent. */
  remove(watcher: Watcher): void {
    if (!this.#watchers.delete(watcher)) return;
    this.#stream?.detach(watcher);
    if (this.#watchers.size === 0) this.#stream?.end();
  }

  /** Called for a member that failed a call: its stream may be dead too, and shall not take long to tell. */
  doubt(endpoint: Endpoint): void {
    if (this.#stream?.endpoint === endpoint) this.#stream.check(DOUBT_LIMIT_MS);
  }

  endAll(error: LockkeeperError): void {
    for (const watcher of [...this.#watchers]) this.#end(watcher, error);
  }

  /** Ends the stream at once. */
  close(): void {
    this.#stream?.end();
    this.endAll(closedError('rejected'));
  }

  /** Keeps a stream up while there are watchers. */
  async #run(): Promise<void> {
    if (this.#running) return;
    this.#running = true;
    try {
      let delay = RECONNECT.next();
      while (this.#watchers.size > 0) {
        const { failure, heard } = await this.#runStream();
        if (failure === undefined) continue;
        if (failure.kind === 'refused') this.endAll(toError(failure));
        if (this.#watchers.size === 0) continue;
        await this.#options.pending.pause(delay.duration);
        delay = heard ? RECONNECT.next() : delay.next(undefined);
      }
    } catch (cause) {
      // Only the end of the coordinator is expected here. Whatever it was, no watcher is left waiting.
      const unexpected = () =>
        new LockkeeperError('unexpected-reply', `watch: ${(cause as Error).message}`, { cause });
      this.endAll(cause instanceof LockkeeperError ? cause : unexpected());
    } finally {
      this.#running = false;
      if (this.#watchers.size > 0 && !this.#options.pending.closed) void this.#run();
    }
  }

  /** One stream, from its opening to its end. */
  async #runStream(): Promise<{ readonly failure: Failure | undefined; readonly heard: boolean }> {
    const { clock, endpoints, pending, connectTimeoutMs } = this.#options;
    const endpoint = endpoints.current;
    const ready = await endpoints.prepare(endpoint, { limitMs: connectTimeoutMs });
    if (!ready.ok) {
      if (ready.failure.kind !== 'refused') endpoints.moveOn(endpoint);
      return { failure: ready.failure, heard: false };
    }
    const stream = new WatchStream<Watcher>(endpoint, ready.value, clock, this);
    this.#stream = stream;
    for (const watcher of [...this.#watchers]) this.#attach(watcher, stream);
    if (pending.closed || this.#watchers.size === 0) stream.end();
    const failure = await stream.down;
    this.#stream = undefined;
    const { heard } = stream;
    if (failure?.kind === 'stale-login') {
      await endpoints.forgetToken(endpoint, ready.value);
      this.#staleLogins += 1;
      if (this.#staleLogins > 1) return { failure: { ...failure, kind: 'refused' }, heard };
    } else if (failure !== undefined && failure.kind !== 'refused') endpoints.moveOn(endpoint);
    return { failure, heard };
  }

  #attach(watcher: Watcher, stream: WatchStream<Watcher>): void {
    if (watcher.attached) watcher.handler.onResumed?.();
    watcher.attached = true;
    stream.attach(watcher);
  }

  onCreated(watcher: Watcher, revision: bigint): void {
    this.#staleLogins = 0;
    if (this.#options.observe(revision) === 'behind') void this.#readAgain(watcher);
  }

  onEvents(watcher: Watcher, events: readonly WatchEvent[], revision: bigint): void {
    this.#options.observe(revision);
    const last = events.at(-1);
    if (last === undefined) return;
    // Not the reply's own revision: that is the store's, and may be far ahead of what was delivered.
    watcher.next = (last.type === 'put' ? last.kv.modRevision : last.modRevision) + 1n;
    watcher.handler.onEvents(events);
  }

  onProgress(watcher: Watcher, revision: bigint): void {
    this.#options.observe(revision);
    if (revision >= watcher.next) watcher.next = revision + 1n;
  }

  onCanceled(watcher: Watcher, reply: WatchReply): void {
    const what = `watch from revision ${watcher.next} on ${JSON.stringify(watcher.key)}`;
    if (reply.compactRevision !== 0n) {
      const text = `${what}: history before revision ${reply.compactRevision} has been compacted`;
      this.#end(watcher, new LockkeeperError('compacted', text));
      return;
    }
    const said = reply.reason;
    const failure = {
      ...verdictOnReason(said),
      text: `${what}: ${said || 'etcd ended it'}`,
      cause: undefined,
      said,
    };
    if (failure.kind === 'stale-login') this.#stream?.giveUp(failure);
    else this.#end(watcher, toError(failure));
  }

  /**
   * A member that is behind what the cluster has shown either lags, and will catch up, or the cluster has
   * lost its data, and no event of the revisions asked for would ever come.
   */
  async #readAgain(watcher: Watcher): Promise<void> {
    if (this.#readingAgain) return;
    this.#readingAgain = true;
    const stream = this.#stream;
    while (this.#stream === stream && this.#watchers.has(watcher)) {
      try {
        await this.#options.read(watcher);
        break;
      } catch (error) {
        // Only an answer can tell; where none came within its time, ask again.
        if (
          !(error instanceof LockkeeperError) ||
          error.code !== 'unreachable' ||
          error.outcome === 'rejected'
        )
          break;
      }
    }
    this.#readingAgain = false;
  }

  #end(watcher: Watcher, error: LockkeeperError): void {
    if (!this.#watchers.has(watcher)) return;
    this.remove(watcher);
    watcher.handler.onEnd(error);
  }
}
