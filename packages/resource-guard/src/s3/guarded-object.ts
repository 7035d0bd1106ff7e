// The guarded object as one guard sees it: every change is decided on a record and takes effect only in its place.
import type { GuardError } from '@lockkeeper/fencing';
import type { Budget } from './budget.ts';
import { type Committed, commit, readRecord } from './commit.ts';
import { type ErrorContext, missingRecord } from './errors.ts';
import { Pace } from './pace.ts';
import type { GuardRecord, StoredRecord } from './record.ts';
import type { ObjectStore } from './store.ts';

/** What to do about the object as it is. */
export type Plan =
  | { readonly kind: 'refuse'; readonly error: GuardError }
  | { readonly kind: 'keep' }
  | { readonly kind: 'write'; readonly next: GuardRecord };

/** `undefined`: there is no object. */
export type Planner = (record: GuardRecord | undefined) => Plan;

export class GuardedObject {
  readonly #store: ObjectStore;
  readonly #createsMissing: boolean;
  readonly #pace = new Pace();
  /** What was seen last. Old or not: a write in its place succeeds only where it is still there. */
  #last: StoredRecord | undefined;

  constructor(store: ObjectStore, createsMissing: boolean) {
    this.#store = store;
    this.#createsMissing = createsMissing;
  }

  /** The object as it is now. */
  async read(context: ErrorContext, budget: Budget): Promise<StoredRecord | undefined> {
    return this.#known(await readRecord(this.#store, budget, context), context);
  }

  /** Carries out what `plan` says, again where another write came first; without delay, since claims do it. */
  async change(plan: Planner, context: ErrorContext, budget: Budget): Promise<StoredRecord | undefined> {
    let base = await this.#lookUpUnlessItWrites(plan, context, budget);
    for (;;) {
      const planned = plan(base?.record);
      if (planned.kind === 'refuse') throw planned.error;
      if (planned.kind === 'keep') return base;
      const done = await this.replace(base, planned.next, context, budget);
      if (done.kind === 'applied') return done.current;
      base = done.current;
    }
  }

  /** The same for a value, which may wait for those who claim. */
  async write(plan: Planner, context: ErrorContext, budget: Budget): Promise<void> {
    let base = await this.#lookUpUnlessItWrites(plan, context, budget);
    for (;;) {
      const planned = plan(base?.record);
      if (planned.kind === 'refuse') throw planned.error;
      if (planned.kind === 'keep') return;
      const done = await this.writeOver(base, planned.next, context, budget);
      if (done.kind === 'applied') return;
      await this.#pace.giveWay(budget);
      base = await this.read(context, budget);
    }
  }

  /** One value in the place of `base`. */
  writeOver(
    base: StoredRecord | undefined,
    next: GuardRecord,
    context: ErrorContext,
    budget: Budget,
  ): Promise<Committed> {
    return this.#pace.write(budget, () => this.replace(base, next, context, budget));
  }

  async replace(
    base: StoredRecord | undefined,
    next: GuardRecord,
    context: ErrorContext,
    budget: Budget,
  ): Promise<Committed> {
    this.#last = undefined;
    const done = await commit(this.#store, base, next, budget, context);
    this.#last = this.#known(done.current, context);
    return done;
  }

  /** What is remembered may be out of date, which a write would find out: whatever ends without one is looked up. */
  async #lookUpUnlessItWrites(
    plan: Planner,
    context: ErrorContext,
    budget: Budget,
  ): Promise<StoredRecord | undefined> {
    const last = this.#last;
    return last !== undefined && plan(last.record).kind === 'write' ? last : this.read(context, budget);
  }

  #known(stored: StoredRecord | undefined, context: ErrorContext): StoredRecord | undefined {
    if (stored === undefined && !this.#createsMissing) throw missingRecord('does not exist', context);
    return stored;
  }
}
