import type { Coordinator, KeyValue, Watch } from '../coordinator/coordinator.ts';
import type { Logger } from '../options.ts';
import { BackOff } from './back-off.ts';

/** A wish, not a command: the holder decides. */
export interface ReleaseRequest {
  readonly reason: string;
  /** How long whoever asks is ready to wait, in milliseconds from its asking; `undefined`: it did not say. */
  readonly deadlineMs: number | undefined;
  /** The `identity` of the keeper that asks. For eyes: anybody who may write there can claim any. */
  readonly by: string | undefined;
}

/** What is written down for the holder to find. */
export function formatRequest(request: ReleaseRequest): string {
  return JSON.stringify({ v: 1, ...request });
}

/** Tolerates what other programs write there. */
function parseRequest({ value }: KeyValue): ReleaseRequest {
  const text = new TextDecoder().decode(value);
  try {
    const fields = JSON.parse(text) as { readonly [field in keyof ReleaseRequest]?: unknown };
    return {
      reason: String(fields.reason ?? ''),
      deadlineMs: typeof fields.deadlineMs === 'number' ? fields.deadlineMs : undefined,
      by: typeof fields.by === 'string' ? fields.by : undefined,
    };
  } catch {
    return { reason: text, deadlineMs: undefined, by: undefined };
  }
}

/**
 * Hears every request that is addressed to one acquisition, those from before it listened too. It watches only once
 * somebody listens, shares the coordinator's one stream, and hears nothing after `close()`.
 */
export class RequestWatch {
  readonly #coordinator: Coordinator;
  readonly #logger: Logger;
  readonly #key: string;
  readonly #listeners = new Set<(request: ReleaseRequest) => void>();
  #watch: Watch | undefined;
  #heard: bigint;
  #closed = false;

  constructor(coordinator: Coordinator, logger: Logger, key: string, since: bigint) {
    this.#coordinator = coordinator;
    this.#logger = logger;
    this.#key = key;
    this.#heard = since;
  }

  listen(listener: (request: ReleaseRequest) => void): Disposable {
    const own = (request: ReleaseRequest) => listener(request);
    this.#listeners.add(own);
    if (this.#watch === undefined && !this.#closed) this.#start();
    return { [Symbol.dispose]: () => void this.#listeners.delete(own) };
  }

  close(): void {
    this.#closed = true;
    this.#listeners.clear();
    this.#watch?.close();
  }

  #start(): void {
    this.#watch = this.#coordinator.watch(
      { key: this.#key, startRevision: this.#heard + 1n },
      {
        onEvents: (events) => {
          for (const event of events) if (event.type === 'put') this.#hear(event.kv);
        },
        onEnd: () => void this.#readAgain(),
      },
    );
  }

  #hear(kv: KeyValue): void {
    if (kv.modRevision <= this.#heard) return;
    this.#heard = kv.modRevision;
    for (const listener of [...this.#listeners]) listener(parseRequest(kv));
  }

  /** The watch could not go on: look whether there is a request, and watch on from there. */
  async #readAgain(): Promise<void> {
    const backOff = new BackOff(this.#coordinator.clock);
    while (!this.#closed) {
      try {
        await backOff.wait(undefined);
        const { kvs, revision } = await this.#coordinator.range({ key: this.#key });
        if (this.#closed) return;
        for (const kv of kvs) this.#hear(kv);
        if (revision > this.#heard) this.#heard = revision;
        return this.#start();
      } catch (error) {
        this.#logger.warn({ key: this.#key, err: error }, 'cannot see release requests, trying again');
      }
    }
  }
}
