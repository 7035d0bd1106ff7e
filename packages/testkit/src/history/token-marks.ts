import { compareTokens, FencingToken } from '@lockkeeper/fencing';
import type { History, HistoryEvent } from './history.ts';

/** A token that was seen somewhere, and where. */
export interface SeenToken {
  readonly token: FencingToken;
  /** As the history has it. */
  readonly text: string;
  /** Readers hold a lock together: their tokens have no order among themselves. */
  readonly shared: boolean;
  readonly event: HistoryEvent;
}

/** The highest tokens seen, of each lineage: of all, and of those that are not shared. */
export type TokenMarks = ReadonlyMap<string, { readonly any: SeenToken; readonly exclusive?: SeenToken }>;

export const NO_MARKS: TokenMarks = new Map();

export function raiseMarks(marks: TokenMarks, seen: SeenToken): TokenMarks {
  const { lineage } = seen.token;
  const mark = marks.get(lineage);
  const exclusive = seen.shared ? mark?.exclusive : higher(mark?.exclusive, seen);
  return new Map(marks).set(lineage, { any: higher(mark?.any, seen), ...(exclusive && { exclusive }) });
}

/** What was seen above this token, and must not have been. */
export function markAbove(marks: TokenMarks, { token, shared }: SeenToken): SeenToken | undefined {
  const mark = marks.get(token.lineage);
  const seen = shared ? mark?.exclusive : mark?.any;
  return seen !== undefined && compareTokens(token, seen.token) === 'below' ? seen : undefined;
}

function higher(mark: SeenToken | undefined, seen: SeenToken): SeenToken {
  return mark !== undefined && compareTokens(seen.token, mark.token) !== 'above' ? mark : seen;
}

/** Reads the tokens of one history, which has to say somewhere which of them are shared. */
export class TokenReader {
  readonly #shared = new Set<string>();

  constructor(history: History) {
    const sharedOps = new Set<string>();
    for (const event of history) {
      const key = event.type === 'info' ? '' : `${event.op} ${event.process}`;
      if (event.type === 'invoke' && event.f === 'acquire' && event.shared) sharedOps.add(key);
      else if (event.type === 'invoke') sharedOps.delete(key);
      const isShared = event.type === 'ok' ? sharedOps.has(key) : 'shared' in event && event.shared === true;
      if (isShared && 'token' in event && event.token !== undefined) this.#shared.add(event.token);
    }
  }

  /** `undefined`: there is no token, or its text has no order that is known here. */
  read(text: string | undefined, event: HistoryEvent): SeenToken | undefined {
    const token = text === undefined ? undefined : parseToken(text);
    if (text === undefined || token === undefined) return undefined;
    const shared = token.shared || this.#shared.has(text);
    return { token, text, shared, event };
  }
}

const DECIMAL = /^[1-9][0-9]{0,18}$/;

/** The text of a fencing token, or a decimal number, as other locks give them. */
function parseToken(text: string): FencingToken | undefined {
  try {
    // Numbers are one lineage, and one with another in their order.
    if (DECIMAL.test(text)) return new FencingToken({ lineage: '-', revision: text, acquisition: '-' });
    return FencingToken.parse(text);
  } catch {
    return undefined;
  }
}
