import { isAcknowledged, type PairedOperation } from './operations.ts';
import { NO_MARKS, raiseMarks, type SeenToken, type TokenMarks, type TokenReader } from './token-marks.ts';

/**
 * The acknowledged operations with a token, in the order of their ends, each with the highest tokens that had
 * been acknowledged before it was invoked.
 */
export function withMarksBefore(
  operations: readonly PairedOperation[],
  tokens: TokenReader,
): { readonly operation: PairedOperation; readonly seen: SeenToken; readonly before: TokenMarks }[] {
  const ended = operations.filter(isAcknowledged).toSorted((a, b) => a.endedAt - b.endedAt);
  const done = ended.flatMap((operation) => {
    const { invoke, end } = operation;
    const seen = tokens.read(end.token ?? ('token' in invoke ? invoke.token : undefined), end);
    return seen === undefined ? [] : [{ operation, seen }];
  });
  const invoked = done.toSorted((a, b) => a.operation.invokedAt - b.operation.invokedAt);
  const before = new Map<PairedOperation, TokenMarks>();
  let marks = NO_MARKS;
  let next = 0;
  for (const { operation } of invoked) {
    for (; next < done.length; next += 1) {
      const earlier = done[next];
      if (earlier === undefined || earlier.operation.endedAt > operation.invokedAt) break;
      marks = raiseMarks(marks, earlier.seen);
    }
    before.set(operation, marks);
  }
  return done.map((one) => ({ ...one, before: before.get(one.operation) ?? NO_MARKS }));
}
