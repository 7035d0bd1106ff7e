// The decision table for readers and writers of one resource, entry by entry, against the function that defines it.
import assert from 'node:assert/strict';
import {
  decideGuard,
  type FencingToken,
  type Guard,
  type GuardAdmin,
  type GuardState,
  type GuardVerb,
} from '@lockkeeper/fencing';
import type { GuardCase, GuardFixture } from './subject.ts';
import { assertAccepted, assertRefused, endingOf, reader, token, withFixture } from './support.ts';

type Step = readonly [verb: 'claim' | 'seal', token: FencingToken];

/** How each state comes about. */
const STATES: ReadonlyMap<string, readonly Step[]> = new Map<string, readonly Step[]>([
  ['untouched', []],
  ['writer 3', [['claim', token(3)]]],
  ['sealed writer 3', [['seal', token(3)]]],
  ['reader 5', [['claim', reader(5)]]],
  [
    'reader 5 after writer 3',
    [
      ['claim', token(3)],
      ['claim', reader(5)],
    ],
  ],
  [
    'sealed reader 5 after sealed writer 3',
    [
      ['seal', token(3)],
      ['seal', reader(5)],
    ],
  ],
  [
    'writer 3 that became a reader',
    [
      ['claim', token(3)],
      ['claim', reader(3)],
    ],
  ],
  [
    'writer 7 after reader 5',
    [
      ['claim', reader(5)],
      ['claim', token(7)],
    ],
  ],
]);

const TOKENS: readonly FencingToken[] = [
  token(2),
  reader(2),
  token(3),
  reader(3),
  reader(3, 'somebody-else'),
  token(4),
  reader(4),
  token(5),
  reader(5),
  reader(5, 'somebody-else'),
  token(6),
  reader(6),
  reader(4, 'a4', 'another'),
];

interface Column {
  readonly verb: GuardVerb;
  readonly requireClaim?: boolean;
}

function column(title: string, { verb, requireClaim = false }: Column): GuardCase {
  return {
    name: `the decision table of readers and writers: ${title}`,
    async run(subject) {
      for (const [stateName, steps] of STATES) {
        for (const presented of TOKENS) {
          const entry = `${title}, ${stateName}, ${presented}`;
          await withFixture(subject, (fixture) =>
            checkEntry(fixture, entry, steps, presented, { verb, requireClaim }),
          );
        }
      }
    },
  };
}

async function checkEntry<Handle>(
  fixture: GuardFixture<Handle>,
  entry: string,
  steps: readonly Step[],
  presented: FencingToken,
  { verb, requireClaim = false }: Column,
): Promise<void> {
  const { guard, other } = fixture;
  let state: GuardState | undefined;
  for (const [step, each] of steps) {
    await guard[step](each);
    const decision = decideGuard(step, guard.resource, state, each);
    assert.equal(decision.verdict, 'accept', `${entry}: how the state comes about`);
    state = (decision.verdict === 'accept' && decision.next) || state;
  }
  const expected = decideGuard(verb, guard.resource, state, presented, { requireClaim });

  let effects = 0;
  const effect = () => {
    effects += 1;
  };
  const call = verb === 'run' ? other.run(presented, effect, { requireClaim }) : other[verb](presented);
  const ending = await endingOf<unknown>(call, entry);
  if (expected.verdict === 'accept') assertAccepted(ending, entry);
  else {
    const error = assertRefused(ending, expected.error.code, entry);
    assert.equal(
      `${error.current}`,
      `${expected.error.current}`,
      `${entry}: the token that it was refused for`,
    );
  }
  assert.equal(effects, verb === 'run' && expected.verdict === 'accept' ? 1 : 0, `${entry}: effects`);
  await checkState(guard, entry, (expected.verdict === 'accept' && expected.next) || state);
}

/** Looks at both marks, or finds out as much without changing them. */
async function checkState(
  guard: Guard & Partial<GuardAdmin>,
  entry: string,
  state: GuardState | undefined,
): Promise<void> {
  if (guard.inspect !== undefined) {
    assert.equal(textOf(await guard.inspect()), textOf(state), `${entry}: what the guard remembers`);
    return;
  }
  for (const presented of TOKENS) {
    const expected = decideGuard('run', guard.resource, state, presented, { requireClaim: true });
    const what = `${entry}; then a run under ${presented}`;
    const ending = await endingOf(
      guard.run(presented, () => 'ran', { requireClaim: true }),
      what,
    );
    if (expected.verdict === 'accept') assert.equal(assertAccepted(ending, what), 'ran');
    else assertRefused(ending, expected.error.code, what);
  }
}

export function textOf(state: GuardState | undefined): string {
  if (state === undefined) return 'untouched';
  const marks = state.writer === undefined ? [state] : [state, state.writer];
  return marks.map(({ token: each, sealed }) => `${each}${sealed ? ' sealed' : ''}`).join(' after ');
}

export const sharedTable: readonly GuardCase[] = [
  column('claim', { verb: 'claim' }),
  column('run', { verb: 'run' }),
  column('run with requireClaim', { verb: 'run', requireClaim: true }),
  column('seal', { verb: 'seal' }),
];
