// The rule for readers and writers, against the plainest model of it: two maxima, and who was sealed.
import { describe, expect, it } from 'vitest';
import { decideGuard, decideRebase, type GuardVerb } from './decide-guard.ts';
import { compareTokens, FencingToken } from './fencing-token.ts';
import type { GuardState } from './guard.ts';

const at = (revision: bigint, shared: boolean, acquisition = `a${revision}`, lineage = 'main') =>
  new FencingToken({ lineage, revision, acquisition, shared });
const writer = (revision: bigint, acquisition?: string) => at(revision, false, acquisition);
const reader = (revision: bigint, acquisition?: string) => at(revision, true, acquisition);

/** The state after verbs that are all accepted. */
function after(...steps: readonly (readonly [GuardVerb, FencingToken])[]): GuardState {
  let state: GuardState | undefined;
  for (const [verb, token] of steps) {
    const decision = decideGuard(verb, 'r', state, token);
    if (decision.verdict === 'reject') throw decision.error;
    state = decision.next ?? state;
  }
  return state ?? expect.unreachable();
}

function verdict(verb: GuardVerb, state: GuardState | undefined, token: FencingToken): string {
  const decision = decideGuard(verb, 'r', state, token);
  if (decision.verdict === 'reject') return decision.error.code;
  return decision.next === undefined ? 'as is' : 'advance';
}

/**
 * A writer passes iff it is not below the last writer and above every reader; a reader iff it is not below the last
 * writer, whose own revision is that of a writer who became a reader. Seals bind the last writer and the newest reader.
 */
class Model {
  readonly #writer = { revision: 0n, sealed: false };
  readonly #reader = { revision: 0n, sealed: false };

  decide(verb: GuardVerb, { shared, revision }: FencingToken): 'pass' | 'stale-token' | 'sealed' {
    const [writer, reader] = [this.#writer, this.#reader];
    const passes = revision >= writer.revision && (shared || revision > reader.revision);
    if (!passes) return verb === 'seal' ? 'pass' : 'stale-token';
    const marks = shared ? [writer, reader] : [writer];
    const isSealed = marks.some((mark) => mark.revision === revision && mark.sealed);
    if (verb !== 'seal' && isSealed) return 'sealed';
    const own = shared ? reader : writer;
    if (revision > own.revision) Object.assign(own, { revision, sealed: verb === 'seal' });
    else if (revision === own.revision && verb === 'seal') own.sealed = true;
    return 'pass';
  }
}

describe('readers and writers', () => {
  it('agree with two plain maxima, over every sequence of four verbs on three revisions', () => {
    const steps = (['claim', 'run', 'seal'] as const).flatMap((verb) =>
      [1n, 2n, 3n].flatMap((revision) => [
        [verb, writer(revision)] as const,
        [verb, reader(revision)] as const,
      ]),
    );
    let checked = 0;
    const play = (path: readonly (readonly [GuardVerb, FencingToken])[]) => {
      let state: GuardState | undefined;
      const model = new Model();
      for (const [verb, token] of path) {
        const expected = model.decide(verb, token);
        const decision = decideGuard(verb, 'r', state, token);
        const got = decision.verdict === 'accept' ? 'pass' : decision.error.code;
        if (got !== expected)
          expect({ path: path.map(String), got }).toEqual({ path: path.map(String), got: expected });
        if (decision.verdict === 'accept' && decision.next !== undefined) {
          // What is stored never goes down, so no storage can mistake an older state for a newer one.
          const order = state === undefined ? 'above' : compareTokens(decision.next.token, state.token);
          if (order !== 'above' && order !== 'same') expect.unreachable(`${path.map(String)} went down`);
          state = decision.next;
        }
        checked += 1;
      }
    };
    for (const a of steps)
      for (const b of steps) for (const c of steps) for (const d of steps) play([a, b, c, d]);
    expect(checked).toBe(18 ** 4 * 4);
  });

  it('an older reader is accepted beside a newer one, whatever is asked of it', () => {
    const state = after(['claim', writer(2n)], ['claim', reader(5n)]);
    for (const verb of ['claim', 'run', 'seal'] as const)
      expect(verdict(verb, state, reader(4n))).toBe('as is');
    const required = decideGuard('run', 'r', state, reader(4n), { requireClaim: true });
    expect(required).toEqual({ verdict: 'accept', next: undefined });
  });

  it('a refusal names the mark that decided', () => {
    const state = after(['claim', writer(3n)], ['claim', reader(5n)]);
    expect(decideGuard('run', 'r', state, reader(2n))).toMatchObject({ error: { current: writer(3n) } });
    expect(decideGuard('run', 'r', state, writer(2n))).toMatchObject({ error: { current: reader(5n) } });
  });

  it('keeps the last writer, sealed or not, while readers come, and forgets it with the next writer', () => {
    const state = after(
      ['claim', writer(2n)],
      ['seal', writer(2n)],
      ['claim', reader(3n)],
      ['claim', reader(4n)],
    );
    const mark = { token: writer(2n), sealed: true };
    expect(state).toEqual({ token: reader(4n), sealed: false, writer: mark });
    const sealed = decideGuard('seal', 'r', state, reader(4n));
    expect(sealed).toEqual({ verdict: 'accept', next: { token: reader(4n), sealed: true, writer: mark } });
    const next = decideGuard('claim', 'r', state, writer(5n));
    expect(next).toEqual({ verdict: 'accept', next: { token: writer(5n), sealed: false } });
  });

  it('a rewritten history shows against either mark', () => {
    const state = after(['claim', writer(2n)], ['claim', reader(5n)]);
    for (const verb of ['claim', 'run', 'seal'] as const) {
      expect(verdict(verb, state, reader(5n, 'else'))).toBe('conflicting-token');
      expect(verdict(verb, state, writer(5n, 'else'))).toBe('conflicting-token');
      expect(verdict(verb, state, reader(2n, 'else'))).toBe('conflicting-token');
      expect(verdict(verb, state, at(4n, true, 'a4', 'another'))).toBe('foreign-lineage');
    }
  });

  it('a rebase to or from a reader forgets the writer of the old lineage', () => {
    const state = after(['claim', writer(2n)], ['claim', reader(5n)]);
    const restored = at(1n, true, 'b', 'restored');
    const next = { token: restored, sealed: false };
    expect(decideRebase('r', state, restored, reader(5n))).toEqual({ verdict: 'accept', next });
    expect(decideRebase('r', state, restored, writer(5n))).toMatchObject({
      error: { code: 'not-confirmed' },
    });
    expect(decideRebase('r', next, restored, reader(5n))).toEqual({ verdict: 'accept', next: undefined });
  });
});
