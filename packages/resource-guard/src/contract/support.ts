// The few tools that the cases share. Time only bounds how long a fault may hide, never makes a case pass.
import assert from 'node:assert/strict';
import { FencingToken, GuardError, type GuardErrorCode } from '@lockkeeper/fencing';
import type {
  GuardCase,
  GuardedValue,
  GuardFixture,
  GuardSubject,
  GuardTrait,
  HeldWrites,
} from './subject.ts';

/** What has not happened by then hangs. */
const HANG_MS = 10_000;
/** A storage that keeps asking for another try is taken at its word this often. */
const TRIES = 100;

/** A case on one fixture. */
export function guardCase(
  name: string,
  body: <Handle>(fixture: GuardFixture<Handle>, scope: Scope) => Promise<void>,
  needs?: GuardTrait,
): GuardCase {
  return { name, needs, run: (subject) => withFixture(subject, body) };
}

export async function withFixture<Handle>(
  subject: GuardSubject<Handle>,
  body: (fixture: GuardFixture<Handle>, scope: Scope) => Promise<void>,
): Promise<void> {
  const fixture = await subject.open();
  const scope = new Scope(subject.temptationMs ?? 100);
  const steps = [() => body(fixture, scope), () => scope.end(), async () => fixture.close?.()];
  const failures: unknown[] = [];
  // Every step, whatever became of those before; what is told is the fault, not what followed from it.
  for (const step of steps) await step().catch((error: unknown) => failures.push(error));
  if (failures.length > 0) throw failures[0];
}

/** What a case began. When the case ends, also by failing, nothing of it is left waiting. */
export class Scope {
  readonly #temptationMs: number;
  readonly #gates: Gate[] = [];
  readonly #calls: Call<unknown>[] = [];
  readonly #held: HeldWrites[] = [];

  constructor(temptationMs: number) {
    this.#temptationMs = temptationMs;
  }

  gate(): Gate {
    const gate = new Gate();
    this.#gates.push(gate);
    return gate;
  }

  call<T>(promise: Promise<T>): Call<T> {
    const call = new Call(promise);
    this.#calls.push(call);
    return call;
  }

  async holdWrites(value: GuardedValue<never>): Promise<HeldWrites> {
    assert.ok(value.holdWrites, 'the fixture lacks holdWrites');
    const held = await value.holdWrites();
    let letGo: Promise<void> | undefined;
    const once: HeldWrites = {
      reached: held.reached,
      letGo: () => {
        letGo ??= held.letGo();
        return letGo;
      },
    };
    this.#held.push(once);
    return once;
  }

  /** Lets a wrong guard finish `call` although it should wait. A right one is pending all that time. */
  async tempt(call: Call<unknown>): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const enough = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, this.#temptationMs);
    });
    await Promise.race([call.settled, enough]).finally(() => clearTimeout(timer));
  }

  async end(): Promise<void> {
    for (const gate of this.#gates) gate.open();
    const letGo = await Promise.allSettled(this.#held.map((held) => held.letGo()));
    await Promise.all(this.#calls.map((call) => call.ending('a call of the case')));
    for (const each of letGo) if (each.status === 'rejected') throw each.reason;
  }
}

/** The token of a lineage `main`; equal revisions are the same grant unless `acquisition` says otherwise. */
export function token(
  revision: number | bigint,
  acquisition = `a${revision}`,
  lineage = 'main',
): FencingToken {
  return new FencingToken({ lineage, revision: BigInt(revision), acquisition });
}

/** The same for a reader; a writer that downgraded has the reader's token of its own revision. */
export function reader(revision: number, acquisition = `a${revision}`, lineage = 'main'): FencingToken {
  return new FencingToken({ lineage, revision: BigInt(revision), acquisition, shared: true });
}

export type Ending<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: unknown };

/** A call in flight whose ending can be asked for at any moment. */
export class Call<T> {
  /** `undefined` while pending. */
  now: Ending<T> | undefined;
  readonly settled: Promise<Ending<T>>;

  constructor(promise: Promise<T>) {
    const record = (ending: Ending<T>): Ending<T> => {
      this.now = ending;
      return ending;
    };
    this.settled = promise.then(
      (value) => record({ ok: true, value }),
      (error: unknown) => record({ ok: false, error }),
    );
  }

  ending(what: string): Promise<Ending<T>> {
    return within(this.settled, what);
  }
}

export function within<T>(promise: Promise<T>, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const hang = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new assert.AssertionError({ message: `${what} hangs` })), HANG_MS);
  });
  return Promise.race([promise, hang]).finally(() => clearTimeout(timer));
}

/** Work of some length, so that calls overlap. */
export function work(durationMs: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, durationMs));
}

/** A point that one side reaches and the other lets it pass. */
export class Gate {
  readonly reached: Promise<void>;
  readonly #opened: Promise<void>;
  #reach: () => void = () => undefined;
  #open: () => void = () => undefined;

  constructor() {
    this.reached = new Promise((resolve) => {
      this.#reach = resolve;
    });
    this.#opened = new Promise((resolve) => {
      this.#open = resolve;
    });
  }

  async pass(): Promise<void> {
    this.#reach();
    await this.#opened;
  }

  open(): void {
    this.#open();
  }
}

export function assertRefused(ending: Ending<unknown>, code: GuardErrorCode, what: string): GuardError {
  if (ending.ok) assert.fail(`${what} was accepted; expected ${code}`);
  const { error } = ending;
  assert.ok(error instanceof GuardError, `${what}: expected a GuardError ${code}, got ${String(error)}`);
  assert.equal(error.code, code, `${what}: ${error.message}`);
  return error;
}

export function assertAccepted<T>(ending: Ending<T>, what: string): T {
  if (ending.ok) return ending.value;
  assert.fail(`${what} was refused: ${String(ending.error)}`);
}

export async function endingOf<T>(promise: Promise<T>, what = 'the call'): Promise<Ending<T>> {
  return new Call(promise).ending(what);
}

/** Runs `call` again for as long as the storage asks for it. */
export async function again<T>(call: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await call();
    } catch (error) {
      const asked = error instanceof GuardError && error.outcome === 'retry';
      if (!asked || tries === TRIES) throw error;
    }
  }
}
