import { createServer, type Socket } from 'node:net';
import type { LockkeeperError, Txn, WatchEvent } from '@lockkeeper/core';
import { ownTime } from '../support/own-time.ts';

/** What a call that must fail fails with, and how long that took. */
export async function failure(call: Promise<unknown>): Promise<{ error: LockkeeperError; tookMs: number }> {
  const start = ownTime();
  const error = await call.then(
    (value) => {
      throw new Error(`expected a rejection, got ${String(value)}`);
    },
    (reason: unknown) => reason as LockkeeperError,
  );
  return { error, tookMs: ownTime() - start };
}

export function put(key: string, value = ''): Txn {
  return { compare: [], success: [{ op: 'put', key, value }], failure: [] };
}

export function remove(key: string): Txn {
  return { compare: [], success: [{ op: 'delete', key }], failure: [] };
}

/** A port that takes connections and never says a word. */
export async function muteServer(): Promise<{ endpoint: string } & AsyncDisposable> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new TypeError('not listening on TCP');
  return {
    endpoint: `http://127.0.0.1:${address.port}`,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** A port of which nobody answers. */
export async function closedPort(): Promise<string> {
  await using server = await muteServer();
  return server.endpoint;
}

/** Collects what a watch tells, and lets a test wait for it. */
export class Recorder {
  readonly events: WatchEvent[] = [];
  ended: LockkeeperError | undefined;
  #changed = () => {};

  readonly handler = {
    onEvents: (events: readonly WatchEvent[]) => {
      this.events.push(...events);
      this.#changed();
    },
    onEnd: (error: Error) => {
      this.ended = error as LockkeeperError;
      this.#changed();
    },
  };

  /** `put k` and `delete k`, in order. */
  get told(): string[] {
    return this.events.map((event) => (event.type === 'put' ? `put ${event.kv.key}` : `delete ${event.key}`));
  }

  async until(done: (recorder: Recorder) => boolean): Promise<void> {
    while (!done(this)) {
      await new Promise<void>((resolve) => {
        this.#changed = resolve;
      });
    }
  }
}
