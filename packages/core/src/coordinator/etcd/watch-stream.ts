import { type ClientDuplexStream, status } from '@grpc/grpc-js';
import type { Clock, Timer } from '../../clock.ts';
import type { KeySpan, WatchEvent } from '../coordinator.ts';
import type { Endpoint } from './endpoint.ts';
import { type Failure, verdictOn } from './failure.ts';
import { Rpc } from './rpc.ts';
import { decodeWatchReply, encodeWatchCancel, encodeWatchCreate, type WatchReply } from './watch-messages.ts';

/** What a stream needs to know of a watcher. */
export interface Watched extends KeySpan {
  /** The first revision whose events are still wanted. */
  readonly next: bigint;
  /** By which it is known on the stream that it is on; a stream sets it. */
  id: number | undefined;
}

/** What a stream reports of its watchers. */
export interface WatchListener<W extends Watched> {
  /** @param revision the member's own revision, which may lag behind the cluster's. */
  onCreated(watcher: W, revision: bigint): void;
  /** @param events of whole revisions, in order. */
  onEvents(watcher: W, events: readonly WatchEvent[], revision: bigint): void;
  /** Every event up to `revision` has been delivered. */
  onProgress(watcher: W, revision: bigint): void;
  onCanceled(watcher: W, reply: WatchReply): void;
}

/** A stream that was silent for this long is asked for a sign of life, and given up after as long again. */
const SILENCE_MS = 4_000;

/** One watch stream on one member, shared by any number of watchers. Once down, it stays down. */
export class WatchStream<W extends Watched> {
  readonly endpoint: Endpoint;
  /** Settles when the stream is over: with the reason, or with `undefined` if `end()` was called. */
  readonly down: Promise<Failure | undefined>;
  readonly #clock: Clock;
  readonly #rpc: Rpc;
  readonly #stream: ClientDuplexStream<Buffer, Buffer>;
  readonly #listener: WatchListener<W>;
  readonly #watchers = new Map<number, W>();
  /** Ids in the order of their creation requests, which is the order of the replies. */
  readonly #creating: number[] = [];
  #lastId = 0;
  #timer: Timer | undefined;
  #heard = 0;
  #asking = false;
  /** The id of the last watch that was created for a sign of life alone. */
  #probe = 0;
  #settle: ((failure: Failure | undefined) => void) | undefined;

  constructor(endpoint: Endpoint, token: string | undefined, clock: Clock, listener: WatchListener<W>) {
    this.endpoint = endpoint;
    this.#clock = clock;
    this.#rpc = new Rpc(Number.POSITIVE_INFINITY, { token, requireLeader: true });
    const stream = endpoint.duplex('/etcdserverpb.Watch/Watch', this.#rpc.options);
    this.#stream = stream;
    this.#listener = listener;
    this.down = new Promise((resolve) => {
      this.#settle = resolve;
    });
    stream.on('data', (message) => this.#receive(message));
    stream.on('error', (error) => this.#failed(error.message, error));
    stream.on('end', () => this.#failed('the member ended the stream', undefined));
    this.#listen();
  }

  /** Whether the member has said anything on this stream. */
  get heard(): boolean {
    return this.#heard > 0;
  }

  attach(watcher: W): void {
    const id = this.#create(watcher, watcher.next);
    watcher.id = id;
    this.#watchers.set(id, watcher);
  }

  detach(watcher: W): void {
    const { id } = watcher;
    if (id === undefined || this.#watchers.get(id) !== watcher) return;
    this.#drop(id);
    this.#cancel(id);
  }

  /** Takes the stream for dead unless the member says something within `limitMs`. */
  check(limitMs: number): void {
    if (this.#settle !== undefined && !this.#asking) this.#ask(limitMs);
  }

  /** Down, for a reason that the stream itself does not know. */
  giveUp(failure: Failure): void {
    this.#finish(failure);
    this.#rpc.giveUp();
  }

  /** No more events. Cancelled rather than half-closed: etcd keeps a half-closed watch stream open. */
  end(): void {
    this.#finish(undefined);
    this.#rpc.giveUp();
  }

  #receive(message: Buffer): void {
    if (this.#settle === undefined) return;
    this.#heard += 1;
    let reply: WatchReply;
    try {
      reply = decodeWatchReply(message);
    } catch (cause) {
      this.#failed('etcd sent a reply that cannot be read', cause);
      return;
    }
    if (reply.created) this.#created(reply);
    else this.#notified(reply);
  }

  #notified(reply: WatchReply): void {
    const { id, canceled, events, revision } = reply;
    const watcher = this.#watchers.get(id);
    // Closed meanwhile, or of no watcher from the beginning.
    if (watcher === undefined) return;
    if (canceled) {
      this.#drop(id);
      this.#listener.onCanceled(watcher, reply);
    } else if (events.length > 0) this.#listener.onEvents(watcher, events, revision);
    else this.#listener.onProgress(watcher, revision);
  }

  #created(reply: WatchReply): void {
    // A refused creation may carry the id -1, so it is the order that counts.
    const id = this.#creating.shift();
    if (id === undefined || (!reply.canceled && reply.id !== id)) {
      this.#failed(`watch ${reply.id} was created where ${id} was asked for`, undefined);
      return;
    }
    const watcher = this.#watchers.get(id);
    if (watcher === undefined) {
      if (id === this.#probe) this.#cancel(id);
      return;
    }
    if (reply.canceled) {
      this.#drop(id);
      this.#listener.onCanceled(watcher, reply);
    } else this.#listener.onCreated(watcher, reply.revision);
  }

  #drop(id: number): void {
    const watcher = this.#watchers.get(id);
    this.#watchers.delete(id);
    if (watcher !== undefined) watcher.id = undefined;
  }

  /** Returns the id that it will have. */
  #create(span: KeySpan, startRevision: bigint): number {
    this.#lastId += 1;
    const id = this.#lastId;
    this.#creating.push(id);
    this.#send(encodeWatchCreate(span, startRevision, id));
    return id;
  }

  #cancel(id: number): void {
    this.#send(encodeWatchCancel(id));
  }

  #send(request: Buffer): void {
    if (this.#settle !== undefined) this.#stream.write(request);
  }

  #listen(): void {
    const heard = this.#heard;
    this.#asking = false;
    this.#arm(SILENCE_MS, () => (this.#heard === heard ? this.#ask(SILENCE_MS) : this.#listen()));
  }

  /**
   * Keepalive pings are answered by any living HTTP/2 stack; a further watch, of what we may watch, is answered by the
   * watch itself. (A progress request is not where a watcher waits for a revision that is still to come, as most do: etcd
   * 3.5.30 tells the progress only of watchers that are not ahead of it.)
   */
  #ask(limitMs: number): void {
    const [some] = this.#watchers.values();
    if (some === undefined) {
      this.#listen();
      return;
    }
    const heard = this.#heard;
    this.#asking = true;
    this.#probe = this.#create(some, 0n);
    this.#arm(limitMs, () => {
      if (this.#heard !== heard) this.#listen();
      else this.#failed(`no sign of life within ${limitMs} ms`, undefined);
    });
  }

  #arm(delayMs: number, fire: () => void): void {
    this.#timer?.cancel();
    this.#timer = this.#clock.setTimer(delayMs, fire, { ref: false });
  }

  #failed(why: string, cause: unknown): void {
    if (this.#settle === undefined) return;
    const said = this.#rpc.status?.code === status.OK ? undefined : this.#rpc.status;
    const verdict = said ? verdictOn(said) : ({ kind: 'unsure', code: 'unreachable' } as const);
    const text = `watch on ${this.endpoint.name}: ${said?.details || why}`;
    this.#finish({ ...verdict, text, cause, said: said?.details });
    this.#rpc.giveUp();
  }

  #finish(failure: Failure | undefined): void {
    this.#timer?.cancel();
    this.#watchers.clear();
    this.#settle?.(failure);
    this.#settle = undefined;
  }
}
