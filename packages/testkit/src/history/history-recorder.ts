import { LockkeeperError } from '@lockkeeper/core';
import { GuardError } from '@lockkeeper/fencing';
import { TestkitError } from '../errors.ts';
import { type Typed, wallTime } from '../worker/messages.ts';
import type { LoggedMessage } from '../worker/worker.ts';
import {
  type History,
  type HistoryEvent,
  type Info,
  mergeHistories,
  type Operation,
  type OperationResult,
} from './history.ts';
import { checkHistoryEvent } from './history-text.ts';

/** Under this type an event travels from a worker to its parent. */
const MESSAGE_TYPE = 'history';

export interface HistoryRecorderOptions {
  /** The time of events, in milliseconds. Default: wall time, comparable between processes of one machine. */
  readonly now?: (() => number) | undefined;
  /** Called with every event. In a worker: `(event) => void report(historyMessage(event))`. */
  readonly onEvent?: ((event: HistoryEvent) => void) | undefined;
}

/** A token, wherever one is expected: a `FencingToken`, its text, or the number that another lock gives. */
export type TokenLike = string | bigint | { readonly revision: bigint; toString(): string };

type WithToken<T> = T extends { readonly token?: unknown }
  ? { readonly [K in keyof T]: K extends 'token' ? TokenLike | Extract<T[K], undefined> : T[K] }
  : T;

/** {@link Operation}, with tokens of any kind. */
export type RecordedOperation = WithToken<Operation>;
/** {@link Info}, with tokens of any kind. */
export type RecordedInfo = WithToken<Info>;
/** {@link OperationResult}, with tokens of any kind. */
export type RecordedResult = WithToken<OperationResult>;

/** An operation that has not ended. The first of its three ends counts; a second one is refused. */
export interface OpenOperation {
  ok(result?: RecordedResult): void;
  /** It certainly had no effect. */
  fail(error?: unknown): void;
  /** Nobody can say. An operation that never ends counts as this. */
  unknown(error?: unknown): void;
}

/** One process, as the recorder sees it. */
export interface RecordedProcess {
  readonly name: string;
  invoke(operation: RecordedOperation): OpenOperation;
  info(info: RecordedInfo): void;
  /**
   * Invokes, runs, and records how it ended; passes on what `run` returns or throws. An error counts as
   * `fail` only where it says that nothing was done: a `GuardError` or `LockkeeperError` whose outcome is
   * not unknown, except `lost`, which comes when the work is done already. Any other is `unknown`.
   */
  run<T>(
    operation: RecordedOperation,
    run: () => Promise<T> | T,
    result?: (value: T) => RecordedResult,
  ): Promise<T>;
}

/**
 * Writes a history down as it happens: in one process for all, or in each worker for itself.
 *
 * It keeps everything; a million events take some hundred megabytes.
 */
export class HistoryRecorder {
  readonly #events: HistoryEvent[] = [];
  readonly #now: () => number;
  readonly #onEvent: (event: HistoryEvent) => void;
  #lastOp = 0;

  constructor(options: HistoryRecorderOptions = {}) {
    this.#now = options.now ?? wallTime;
    this.#onEvent = options.onEvent ?? (() => {});
  }

  /** What was recorded, in order; it grows with the recording. */
  get history(): History {
    return this.#events;
  }

  /**
   * Appends an event that was made elsewhere, with the time it has.
   * @throws {@link TestkitError} `invalid-history`
   */
  record(event: HistoryEvent): void {
    this.#add(checkHistoryEvent(event));
  }

  /**
   * Appends the event of a worker's message. @returns `false`: the message carries none.
   * @throws {@link TestkitError} `invalid-history`
   */
  take(message: Typed): boolean {
    if (message.type !== MESSAGE_TYPE) return false;
    this.record((message as HistoryMessage).event);
    return true;
  }

  process(name: string): RecordedProcess {
    const add = (event: object) => {
      this.#add({ atMs: this.#now(), process: name, ...event } as HistoryEvent);
    };
    const invoke = (operation: RecordedOperation): OpenOperation => {
      this.#lastOp += 1;
      const op = this.#lastOp;
      let ended = false;
      const end = (event: object) => {
        if (ended)
          throw new TestkitError(
            'invalid-history',
            `history: ${operation.f} ${op} of "${name}" has ended already`,
          );
        ended = true;
        add({ op, ...event });
      };
      add({ type: 'invoke', op, ...tokenAsText(operation) });
      return {
        ok: (result = {}) => end({ type: 'ok', ...tokenAsText(result) }),
        fail: (error) => end({ type: 'fail', ...errorAsText(error) }),
        unknown: (error) => end({ type: 'unknown', ...errorAsText(error) }),
      };
    };
    return {
      name,
      invoke,
      info: (info) => add({ type: 'info', ...tokenAsText(info) }),
      run: async (operation, run, result) => {
        const open = invoke(operation);
        let value: Awaited<ReturnType<typeof run>>;
        try {
          value = await run();
        } catch (error) {
          if (isWithoutEffect(error)) open.fail(error);
          else open.unknown(error);
          throw error;
        }
        open.ok(result?.(value));
        return value;
      },
    };
  }

  #add(event: HistoryEvent): void {
    this.#events.push(event);
    this.#onEvent(event);
  }
}

/** Carries an event from a worker to its parent: for the types of what it sends. */
export interface HistoryMessage extends Typed {
  readonly type: typeof MESSAGE_TYPE;
  readonly event: HistoryEvent;
}

/** The message that carries an event to the parent, by `workerChannel().report`. */
export function historyMessage(event: HistoryEvent): HistoryMessage {
  return { type: MESSAGE_TYPE, event };
}

/**
 * The history in the messages of workers (`worker.messages`), merged by time: for workers of one machine.
 * Messages that carry no event are passed over.
 * @throws {@link TestkitError} `invalid-history`
 */
export function historyFromMessages(...logs: readonly (readonly LoggedMessage<Typed>[])[]): History {
  return mergeHistories(
    ...logs.map((log) => {
      const recorder = new HistoryRecorder();
      for (const { message } of log) recorder.take(message);
      return recorder.history;
    }),
  );
}

function tokenAsText(fields: RecordedOperation | RecordedInfo | RecordedResult): object {
  if (!('token' in fields) || fields.token === undefined) return fields;
  return { ...fields, token: `${fields.token}` };
}

function errorAsText(error: unknown): { readonly error?: string } {
  if (error === undefined) return {};
  if (error instanceof GuardError || error instanceof LockkeeperError) {
    return { error: `${error.code}: ${error.message}` };
  }
  return { error: error instanceof Error ? error.message : String(error) };
}

/** @internal Whether an error says that nothing was done. */
export function isWithoutEffect(error: unknown): boolean {
  if (error instanceof GuardError) return error.outcome !== 'unknown';
  return error instanceof LockkeeperError && error.outcome === 'rejected' && error.code !== 'lost';
}
