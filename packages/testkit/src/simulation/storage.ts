import { type FencingToken, type Guard, type GuardCallOptions, GuardError } from '@lockkeeper/fencing';
import { memoryGuard } from '@lockkeeper/resource-guard/memory';
import type { Surroundings } from './connection.ts';
import type { Fate } from './network.ts';
import type { SimulatedProcess } from './process.ts';

const TIMEOUT_MS = 2_000;

/** Is told what took effect at the storage, and checks it against what the guards promised. */
export interface StorageListener {
  /** @param reads - a reader of a read/write lock does this, or a writer that became one; whatever its token says. */
  onClaimed(resource: Resource, token: FencingToken, reads: boolean): void;
  onSealed(resource: Resource, token: FencingToken, reads: boolean): void;
  /** A call has arrived: from here on its token may refuse others. */
  onPresented(resource: Resource, token: FencingToken, reads: boolean): void;
  /** A claim or a run was refused because of a newer token. */
  onStale(resource: Resource, token: FencingToken, reads: boolean): void;
  onRead(resource: Resource, token: FencingToken): void;
  onWrite(resource: Resource, write: GuardedWrite): void;
}

/** A write that rests on a read: `saw` is the version that was read. */
export interface GuardedWrite {
  readonly id: string;
  readonly token: FencingToken;
  readonly saw: number;
}

/** What is guarded: a version, and who wrote it last. */
export interface Resource {
  readonly name: string;
  readonly guard: Guard<undefined>;
  /** The names of all writes that took effect. */
  readonly writes: Set<string>;
  version: number;
  lastWriter: string | undefined;
}

/**
 * The storage whose guards check the tokens: real guards, behind the simulated network. What was sent and
 * given up may still take effect later.
 */
export class SimulatedStorage {
  readonly #resources = new Map<string, Resource>();
  readonly #around: Surroundings;
  readonly #listener: StorageListener;
  readonly #requireClaim: boolean;
  readonly #sent = new Map<string, number>();
  #stoppedUntil = 0;

  constructor(around: Surroundings, listener: StorageListener, requireClaim: boolean) {
    this.#around = around;
    this.#listener = listener;
    this.#requireClaim = requireClaim;
  }

  resource(name: string): Resource {
    const known = this.#resources.get(name);
    if (known !== undefined) return known;
    const guard = memoryGuard({ resource: name, requireClaim: this.#requireClaim });
    const resource = { name, guard, writes: new Set<string>(), version: 0, lastWriter: undefined };
    this.#resources.set(name, resource);
    return resource;
  }

  /** It answers late. */
  stop(ms: number): void {
    this.#stoppedUntil = Math.max(this.#stoppedUntil, this.#around.world.now + ms);
  }

  /** The guard of `name` as `process` reaches it. */
  guardFor(process: SimulatedProcess, name: string, reads = false): RemoteGuard {
    return new RemoteGuard(this, process, this.resource(name), this.#listener, reads);
  }

  /** Carries one call to the storage and its answer back. */
  call<T>(process: SimulatedProcess, what: string, act: (fate: Fate) => Promise<T>): Promise<T> {
    const { network, trace } = this.#around;
    const number = (this.#sent.get(process.name) ?? 0) + 1;
    this.#sent.set(process.name, number);
    const fate = network.fateOf(`${process.name}/storage#${number}`);
    return new Promise<T>((resolve, reject) => {
      const giveUp = (why: string) => reject(new GuardError('unknown', `${what}: no answer (${why})`));
      const timer = process.setTimer(TIMEOUT_MS, () => giveUp(`${TIMEOUT_MS} ms`));
      const back = (act: () => void) => {
        if (fate.loseReply) return void trace?.add('network', `loses the storage's answer to ${what}`);
        network.carry(process.name, fate, fate.replyMs, () =>
          process.deliver(() => {
            timer.cancel();
            act();
          }),
        );
      };
      const arrive = () => {
        if (this.#around.world.now < this.#stoppedUntil) {
          this.#around.world.at(this.#stoppedUntil, arrive);
          return;
        }
        act(fate).then(
          (value) => back(() => resolve(value)),
          (error) => {
            trace?.add('storage', `${what}: ${error instanceof GuardError ? error.code : error}`);
            back(() => reject(error));
          },
        );
      };
      if (fate.loseRequest) return void trace?.add('network', `loses ${what}`);
      network.carry(process.name, fate, fate.requestMs, arrive);
    });
  }

  /** How long an effect takes at the storage. */
  effect(ms: number): Promise<void> {
    return new Promise((resolve) => this.#around.world.after(ms, resolve));
  }

  label(token: FencingToken): string {
    return this.#around.trace?.acquisition(token.acquisition) ?? '';
  }

  note(what: string): void {
    this.#around.trace?.add('storage', what);
  }
}

/** What a process passes to `acquire({ claims })`, and writes through. */
export class RemoteGuard implements Guard<undefined> {
  readonly #storage: SimulatedStorage;
  readonly #process: SimulatedProcess;
  readonly #resource: Resource;
  readonly #listener: StorageListener;
  readonly #reads: boolean;

  constructor(
    storage: SimulatedStorage,
    process: SimulatedProcess,
    resource: Resource,
    listener: StorageListener,
    reads: boolean,
  ) {
    this.#storage = storage;
    this.#process = process;
    this.#resource = resource;
    this.#listener = listener;
    this.#reads = reads;
  }

  get resource(): string {
    return this.#resource.name;
  }

  async claim(token: FencingToken, options?: GuardCallOptions): Promise<void> {
    await this.#verb('claim', token, options, async () => {
      await this.#resource.guard.claim(token);
      this.#listener.onClaimed(this.#resource, token, this.#isReading(token));
    });
  }

  async seal(token: FencingToken, options?: GuardCallOptions): Promise<void> {
    await this.#verb('seal', token, options, async () => {
      await this.#resource.guard.seal(token);
      this.#listener.onSealed(this.#resource, token, this.#isReading(token));
    });
  }

  async run<T>(token: FencingToken, effect: (handle: undefined) => T | Promise<T>): Promise<T> {
    return this.#verb('run', token, undefined, () => this.#resource.guard.run(token, effect));
  }

  /** Reads the version, outside of any guard. */
  read(): Promise<number> {
    return this.#storage.call(
      this.#process,
      `read of ${this.#process.name}`,
      async () => this.#resource.version,
    );
  }

  /** One guarded read. */
  readUnder(token: FencingToken): Promise<void> {
    return this.#verb('read', token, undefined, () =>
      this.#resource.guard.run(token, () => this.#listener.onRead(this.#resource, token)),
    );
  }

  /** One guarded write, of which the storage takes its time. */
  write(write: GuardedWrite): Promise<void> {
    return this.#verb('write', write.token, undefined, (fate) =>
      this.#resource.guard.run(write.token, async () => {
        if (fate.coin < 0.3) await this.#storage.effect(fate.coin * 400);
        this.#listener.onWrite(this.#resource, write);
        this.#resource.version += 1;
        this.#resource.lastWriter = write.token.acquisition;
        this.#resource.writes.add(write.id);
      }),
    );
  }

  #isReading({ shared }: FencingToken): boolean {
    return this.#reads || shared;
  }

  async #verb<T>(
    verb: string,
    token: FencingToken,
    options: GuardCallOptions | undefined,
    act: (fate: Fate) => Promise<T>,
  ): Promise<T> {
    const signal = options?.signal;
    const what = `${verb} ${this.resource} under ${this.#storage.label(token)} of ${this.#process.name}`;
    const answer = this.#storage.call(this.#process, what, async (fate) => {
      this.#listener.onPresented(this.#resource, token, this.#isReading(token));
      const value = await act(fate).catch((error: unknown) => {
        if (error instanceof GuardError && error.code === 'stale-token')
          this.#listener.onStale(this.#resource, token, this.#isReading(token));
        throw error;
      });
      this.#storage.note(`${what}: ok`);
      return value;
    });
    if (signal === undefined) return answer;
    return new Promise<T>((resolve, reject) => {
      const onAbort = () => reject(new GuardError('unknown', `${verb} ${this.resource}: given up`));
      if (signal.aborted) onAbort();
      else signal.addEventListener('abort', onAbort, { once: true });
      answer.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
    });
  }
}
