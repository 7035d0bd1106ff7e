// The way out of `foreign-lineage`: an operator looks, confirms what he saw, and only then the lineage changes.
import assert from 'node:assert/strict';
import type { Guard, GuardAdmin } from '@lockkeeper/fencing';
import type { GuardCase, GuardFixture } from './subject.ts';
import { assertRefused, endingOf, guardCase, token } from './support.ts';

const OLD = token(9);
const RESTORED = token(3, 'a3', 'restored');

export const adminCases: readonly GuardCase[] = [
  adminCase('inspect tells what is in force, and changes nothing', async ({ guard, other }) => {
    assert.equal(await guard.inspect(), undefined);
    await other.claim(OLD);
    await checkState(guard, { token: OLD, sealed: false });
    await other.seal(OLD);
    await checkState(guard, { token: OLD, sealed: true });
    assertRefused(await endingOf(other.run(OLD, () => 0)), 'sealed', 'a run after the seal');
  }),

  adminCase('rebase adopts another lineage, and the old one is foreign from then on', async (fixture) => {
    const { guard, other, value } = fixture;
    await guard.claim(OLD);
    assertRefused(await endingOf(guard.claim(RESTORED)), 'foreign-lineage', 'a claim before the rebase');
    await other.rebase(RESTORED, { from: OLD });
    await other.rebase(RESTORED, { from: OLD });
    await checkState(guard, { token: RESTORED, sealed: false });
    await guard.run(RESTORED, (handle) => value.write(handle, 'restored'), { requireClaim: true });
    const late = guard.run(token(10), (handle) => value.write(handle, 'late'));
    assertRefused(await endingOf(late), 'foreign-lineage', 'a run under the old lineage');
    const older = guard.run(token(2, 'a2', 'restored'), (handle) => value.write(handle, 'older'));
    assertRefused(await endingOf(older), 'stale-token', 'an older run under the new lineage');
    assert.equal(await value.peek(), 'restored');
  }),

  adminCase('rebase changes nothing where another state was confirmed', async ({ guard, other }) => {
    const rebase = (from = OLD) => endingOf(other.rebase(RESTORED, { from }));
    assertRefused(await rebase(), 'not-confirmed', 'a rebase of an untouched guard');
    await guard.claim(OLD);
    for (const from of [token(8), token(10), token(9, 'somebody-else')]) {
      const error = assertRefused(await rebase(from), 'not-confirmed', `the confirmation of ${from}`);
      assert.equal(String(error.current), String(OLD));
    }
    const within = endingOf(other.rebase(token(10), { from: OLD }));
    assertRefused(await within, 'invalid-option', 'a rebase within one lineage');
    await checkState(guard, { token: OLD, sealed: false });
  }),
];

interface AdminFixture<Handle> extends GuardFixture<Handle> {
  readonly guard: Guard<Handle> & GuardAdmin;
  readonly other: Guard<Handle> & GuardAdmin;
}

function adminCase(name: string, body: <Handle>(fixture: AdminFixture<Handle>) => Promise<void>): GuardCase {
  return guardCase(
    name,
    async (fixture) => {
      for (const guard of [fixture.guard, fixture.other] as readonly Partial<GuardAdmin>[]) {
        assert.ok(guard.inspect && guard.rebase, 'the guard has no inspect or no rebase');
      }
      await body(fixture as AdminFixture<never>);
    },
    'admin',
  );
}

async function checkState(
  guard: GuardAdmin,
  expected: { readonly token: unknown; readonly sealed: boolean },
): Promise<void> {
  const state = await guard.inspect();
  assert.deepEqual(state && { token: String(state.token), sealed: state.sealed }, {
    token: String(expected.token),
    sealed: expected.sealed,
  });
}
