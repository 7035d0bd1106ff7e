// The decision table, entry by entry, against the pure function that defines it.
import assert from 'node:assert/strict';
import { decideGuard, type FencingToken, type GuardState, type GuardVerb } from '@lockkeeper/fencing';
import type { GuardCase, GuardFixture } from './subject.ts';
import { again, assertAccepted, assertRefused, endingOf, guardCase, token, withFixture } from './support.ts';

const STATES: ReadonlyMap<string, GuardState | undefined> = new Map([
  ['untouched', undefined],
  ['at 5', { token: token(5), sealed: false }],
  ['sealed at 5', { token: token(5), sealed: true }],
]);

const TOKENS: ReadonlyMap<string, FencingToken> = new Map([
  ['below', token(4)],
  ['same', token(5)],
  ['above', token(6)],
  ['conflicting', token(5, 'somebody-else')],
  ['foreign below', token(4, 'a4', 'another')],
  ['foreign above', token(6, 'a6', 'another')],
]);

interface Column {
  readonly verb: GuardVerb;
  readonly requireClaim?: boolean;
}

function column(title: string, { verb, requireClaim = false }: Column): GuardCase {
  return {
    name: `the decision table: ${title}`,
    async run(subject) {
      for (const [stateName, state] of STATES) {
        for (const [tokenName, presented] of TOKENS) {
          await withFixture(subject, (fixture) =>
            checkEntry(fixture, `${title}, ${stateName}, ${tokenName}`, state, presented, {
              verb,
              requireClaim,
            }),
          );
        }
      }
    },
  };
}

async function checkEntry<Handle>(
  fixture: GuardFixture<Handle>,
  entry: string,
  state: GuardState | undefined,
  presented: FencingToken,
  { verb, requireClaim = false }: Column,
): Promise<void> {
  const { guard, other } = fixture;
  if (state !== undefined) await guard.claim(state.token);
  if (state?.sealed) await guard.seal(state.token);
  const expected = decideGuard(verb, guard.resource, state, presented, { requireClaim });

  let effects = 0;
  const effect = () => {
    effects += 1;
  };
  const call = verb === 'run' ? other.run(presented, effect, { requireClaim }) : other[verb](presented);
  const ending = await endingOf<unknown>(call, entry);
  if (expected.verdict === 'accept') assertAccepted(ending, entry);
  else assertRefused(ending, expected.error.code, entry);
  assert.equal(effects, verb === 'run' && expected.verdict === 'accept' ? 1 : 0, `${entry}: effects`);

  const after = expected.verdict === 'accept' && expected.next !== undefined ? expected.next : state;
  await checkState(fixture, entry, after);
}

/** Finds out what the guard remembers, without changing it. */
async function checkState<Handle>(
  { guard }: GuardFixture<Handle>,
  entry: string,
  state: GuardState | undefined,
): Promise<void> {
  const probe = async (presented: FencingToken) =>
    endingOf(
      guard.run(presented, () => 'ran', { requireClaim: true }),
      entry,
    );
  for (const presented of TOKENS.values()) {
    const expected = decideGuard('run', guard.resource, state, presented, { requireClaim: true });
    const what = `${entry}; then a run under ${presented}`;
    const ending = await probe(presented);
    if (expected.verdict === 'accept') assert.equal(assertAccepted(ending, what), 'ran');
    else assertRefused(ending, expected.error.code, what);
  }
}

export const tableCases: readonly GuardCase[] = [
  column('claim', { verb: 'claim' }),
  column('run', { verb: 'run' }),
  column('run with requireClaim', { verb: 'run', requireClaim: true }),
  column('seal', { verb: 'seal' }),

  guardCase(
    'a refusal tells the resource, the token presented and the token in force',
    async ({ guard, other }) => {
      await guard.claim(token(7));
      const error = assertRefused(
        await endingOf(other.run(token(6), () => 0)),
        'stale-token',
        'an older run',
      );
      assert.equal(error.outcome, 'rejected');
      assert.equal(error.resource, guard.resource);
      assert.equal(String(error.token), String(token(6)));
      assert.equal(String(error.current), String(token(7)));
    },
  ),

  guardCase('revisions beyond 2^53 and up to 2^63-1 are told apart', async ({ guard, other }) => {
    const revisions = [
      2n ** 53n - 1n,
      2n ** 53n,
      2n ** 53n + 1n,
      2n ** 53n + 2n,
      2n ** 63n - 2n,
      2n ** 63n - 1n,
    ];
    let older: FencingToken | undefined;
    for (const revision of revisions) {
      const newer = token(revision);
      await guard.claim(newer);
      assertRefused(
        await endingOf(other.run(token(revision, 'somebody-else'), () => 0)),
        'conflicting-token',
        `another ${revision}`,
      );
      if (older !== undefined) {
        assertRefused(await endingOf(other.run(older, () => 0)), 'stale-token', `${older} after ${revision}`);
      }
      assert.equal(await other.run(newer, () => 'ran', { requireClaim: true }), 'ran');
      older = newer;
    }
  }),

  guardCase('claims of many tokens in any order end at the highest', async ({ guard, other }) => {
    // A fixed permutation of 1 to 30, so that a failure repeats.
    const revisions = Array.from({ length: 30 }, (_, index) => ((index * 17) % 31) + 1);
    assert.equal(new Set(revisions).size, 30);
    const endings = await Promise.all(
      revisions.map((revision, index) =>
        endingOf(again(() => (index % 2 === 0 ? guard : other).claim(token(revision)))),
      ),
    );
    const highest = Math.max(...revisions);
    endings.forEach((ending, index) => {
      const what = `claim of ${revisions[index]}`;
      if (revisions[index] === highest) assertAccepted(ending, what);
      else if (!ending.ok) assertRefused(ending, 'stale-token', what);
    });
    assertRefused(
      await endingOf(guard.run(token(highest - 1), () => 0)),
      'stale-token',
      'the second highest',
    );
    assert.equal(await other.run(token(highest), () => 'ran', { requireClaim: true }), 'ran');
  }),
];
