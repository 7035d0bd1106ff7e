import { FencingToken, GuardError } from '@lockkeeper/fencing';
import { MOST_PERMITS } from '../lock/key-layout.ts';

/**
 * The token of a permit. Permits of two slots are held at the same time, so their tokens have no order; only
 * within one slot does a later one fence an earlier one. That is why this is no `FencingToken`, and why a guard
 * gets one only by naming the slot that its resource belongs to.
 */
export class PermitToken {
  readonly slot: number;
  readonly #token: FencingToken;

  /** @internal */
  constructor(slot: number, token: FencingToken) {
    this.slot = slot;
    this.#token = token;
  }

  /**
   * Reads the text form, `slot 3 of lineage:revision:acquisition`.
   * @throws {@link GuardError} `invalid-token` for anything else.
   */
  static parse(text: string): PermitToken {
    const [, slot = '', token = ''] =
      (typeof text === 'string' && /^slot (0|[1-9]\d{0,2}) of (.+)$/.exec(text)) || [];
    if (token !== '') return new PermitToken(Number(slot), FencingToken.parse(token));
    const why = `expected "slot N of lineage:revision:acquisition", N from 0 to ${MOST_PERMITS - 1}`;
    throw new GuardError('invalid-token', `permit token: text is ${JSON.stringify(text)}; ${why}`);
  }

  /**
   * The fencing token for the guard of slot `slot`'s resource.
   * @throws {@link GuardError} `invalid-token` where the permit is of another slot.
   */
  forSlot(slot: number): FencingToken {
    if (slot === this.slot) return this.#token;
    throw new GuardError('invalid-token', `slot is ${String(slot)}; the permit is of slot ${this.slot}`);
  }

  /** `slot 3 of lineage:revision:acquisition`. */
  toString(): string {
    return `slot ${this.slot} of ${this.#token}`;
  }

  toJSON(): string {
    return this.toString();
  }
}

const WAITING = 'waiting as ';

/** What names a place in a semaphore's queue, for people and for `break`: no guard takes it for a token. */
export function waiterText(place: FencingToken): string {
  return `${WAITING}${place}`;
}

/** `undefined` for anything else. @throws GuardError `invalid-token` */
export function parseWaiterText(text: string): FencingToken | undefined {
  return text.startsWith(WAITING) ? FencingToken.parse(text.slice(WAITING.length)) : undefined;
}
