// Readers and writers of one resource: readers do not fence each other, and fence every older writer.
import assert from 'node:assert/strict';
import type { GuardAdmin } from '@lockkeeper/fencing';
import { sharedTable, textOf } from './shared-table.ts';
import type { GuardCase } from './subject.ts';
import {
  again,
  assertAccepted,
  assertRefused,
  endingOf,
  guardCase,
  reader,
  token,
  within,
} from './support.ts';

const WRITER = token(1);
const OLDER = reader(2);
const NEWER = reader(3);
const NEXT = token(4);

export const sharedCases: readonly GuardCase[] = [
  ...sharedTable,

  guardCase('an older reader goes on after a newer one has claimed', async ({ guard, other, value }) => {
    await guard.claim(OLDER);
    await other.claim(NEWER);
    await guard.run(OLDER, (handle) => value.write(handle, 'older'));
    assert.equal(await other.run(NEWER, (handle) => value.read(handle)), 'older');
    await guard.claim(OLDER);
    await guard.run(OLDER, (handle) => value.write(handle, 'older again'), { requireClaim: true });
    await other.seal(NEWER);
    assertRefused(await endingOf(other.run(NEWER, () => 0)), 'sealed', 'a run of the sealed reader');
    assert.equal(await guard.run(OLDER, (handle) => value.read(handle)), 'older again');
  }),

  guardCase(
    "readers' runs overlap",
    async ({ guard, other }, scope) => {
      await guard.claim(OLDER);
      await other.claim(NEWER);
      const pauses = [scope.gate(), scope.gate()] as const;
      const runs = [
        scope.call(guard.run(OLDER, () => pauses[0].pass())),
        scope.call(other.run(NEWER, () => pauses[1].pass())),
      ];
      await within(Promise.all(pauses.map((pause) => pause.reached)), 'two readers at once');
      for (const pause of pauses) pause.open();
      for (const run of runs) assertAccepted(await run.ending('a reader'), 'a reader');
    },
    'overlap',
  ),

  guardCase(
    "a newer reader claims while an older one's run is in flight, which goes on",
    async ({ guard, other, value }, scope) => {
      await guard.claim(WRITER);
      await guard.claim(OLDER);
      const pause = scope.gate();
      const run = scope.call(
        guard.run(OLDER, async (handle) => {
          await pause.pass();
          await value.write(handle, 'older');
        }),
      );
      await within(pause.reached, "the older reader's run");
      const claim = scope.call(other.claim(NEWER));
      const firstRun = scope.call(again(() => other.run(reader(4), () => 'ran')));
      await scope.tempt(claim);
      pause.open();
      assertAccepted(await run.ending("the older reader's run"), "the older reader's run");
      assertAccepted(await claim.ending('the claim'), 'the claim');
      assert.equal(assertAccepted(await firstRun.ending('a first run'), 'a first run'), 'ran');
      assert.equal(await guard.run(OLDER, (handle) => value.read(handle)), 'older');
    },
  ),

  guardCase("a stalled writer is refused after a reader's claim", async ({ guard, other, value }) => {
    await guard.claim(WRITER);
    await guard.run(WRITER, (handle) => value.write(handle, 'written'));
    await other.claim(OLDER);
    const late = await endingOf(guard.run(WRITER, (handle) => value.write(handle, 'late')));
    const error = assertRefused(late, 'stale-token', 'the late write');
    assert.equal(`${error.current}`, `${OLDER}`);
    assertRefused(await endingOf(guard.claim(WRITER)), 'stale-token', 'a claim of the stalled writer');
    await guard.seal(WRITER);
    assert.equal(await other.run(OLDER, (handle) => value.read(handle), { requireClaim: true }), 'written');
  }),

  guardCase("no older write follows a reader's claim", async ({ guard, other, value }, scope) => {
    await guard.claim(WRITER);
    const pause = scope.gate();
    const late = scope.call(
      guard.run(WRITER, async (handle) => {
        await pause.pass();
        await value.write(handle, 'late');
      }),
    );
    await within(pause.reached, "the writer's run");
    const claim = scope.call(other.claim(NEWER));
    await scope.tempt(claim);
    const atClaim = claim.now && (await value.peek());
    pause.open();
    const lateEnding = await late.ending("the writer's run");
    assertAccepted(await claim.ending('the claim'), 'the claim');
    const atEnd = await value.peek();
    if (atClaim !== undefined) assert.equal(atEnd, atClaim, 'the value changed after the claim');
    assert.equal(atEnd, lateEnding.ok ? 'late' : '', 'what the writer was told');
    assert.equal(await guard.run(OLDER, (handle) => value.read(handle)), atEnd, 'what an older reader reads');
  }),

  guardCase(
    "every reader is refused after the next writer's claim",
    async ({ guard, other, value }, scope) => {
      await guard.claim(OLDER);
      await guard.claim(NEWER);
      const pause = scope.gate();
      const inFlight = scope.call(
        guard.run(OLDER, async (handle) => {
          await pause.pass();
          await value.write(handle, 'late');
        }),
      );
      await within(pause.reached, "the older reader's run");
      const claim = scope.call(other.claim(NEXT));
      await scope.tempt(claim);
      const atClaim = claim.now && (await value.peek());
      pause.open();
      const ending = await inFlight.ending("the older reader's run");
      assertAccepted(await claim.ending('the claim'), 'the claim');
      const atEnd = await value.peek();
      if (atClaim !== undefined) assert.equal(atEnd, atClaim, 'the value changed after the claim');
      assert.equal(atEnd, ending.ok ? 'late' : '', 'what the older reader was told');
      for (const late of [OLDER, NEWER]) {
        assertRefused(await endingOf(guard.run(late, () => 0)), 'stale-token', `${late}`);
        assertRefused(await endingOf(guard.claim(late)), 'stale-token', `a claim of ${late}`);
      }
      await other.run(NEXT, (handle) => value.write(handle, 'next'), { requireClaim: true });
      await other.claim(reader(5));
      assertRefused(
        await endingOf(guard.run(NEWER, () => 0)),
        'stale-token',
        'a reader before the last writer',
      );
    },
  ),

  guardCase('a writer goes on as a reader, and no longer as a writer', async ({ guard, other, value }) => {
    const downgraded = reader(1);
    await guard.claim(WRITER);
    await guard.run(WRITER, (handle) => value.write(handle, 'written'));
    await guard.claim(downgraded);
    assertRefused(await endingOf(guard.run(WRITER, () => 0)), 'stale-token', 'a late write of the writer');
    await other.claim(NEWER);
    assert.equal(
      await guard.run(downgraded, (handle) => value.read(handle), { requireClaim: true }),
      'written',
    );
    await other.claim(NEXT);
    assertRefused(await endingOf(guard.run(downgraded, () => 0)), 'stale-token', 'the reader it became');
  }),

  guardCase('a writer that was sealed does not come back as a reader', async ({ guard, other }) => {
    await guard.claim(WRITER);
    await other.seal(WRITER);
    assertRefused(await endingOf(guard.claim(reader(1))), 'sealed', 'its claim as a reader');
    await other.claim(NEWER);
    assertRefused(await endingOf(guard.run(reader(1), () => 0)), 'sealed', 'its run beside another reader');
    assert.equal(await guard.run(OLDER, () => 'ran'), 'ran');
  }),

  guardCase(
    'claims of many readers and writers in any order end at the highest',
    async ({ guard, other }) => {
      // A fixed permutation of 1 to 30, so that a failure repeats; 28 and 14 are the last writers.
      const revisions = Array.from({ length: 30 }, (_, index) => ((index * 17) % 31) + 1);
      const tokenOf = (revision: number) => (revision % 14 === 0 ? token(revision) : reader(revision));
      const endings = await Promise.all(
        revisions.map((revision, index) =>
          endingOf(again(() => (index % 2 === 0 ? guard : other).claim(tokenOf(revision)))),
        ),
      );
      endings.forEach((ending, index) => {
        const revision = revisions[index] as number;
        const what = `claim of ${tokenOf(revision)}`;
        if (revision > 28) assertAccepted(ending, what);
        else if (!ending.ok) assertRefused(ending, 'stale-token', what);
      });
      assertRefused(await endingOf(guard.run(token(28), () => 0)), 'stale-token', 'the last writer');
      const last = (endings[revisions.indexOf(28)] as { ok: boolean }).ok;
      const between = await endingOf(guard.run(reader(27), () => 0));
      if (last) assertRefused(between, 'stale-token', 'a reader before the last writer');
      assert.equal(await other.run(reader(29), () => 'ran', { requireClaim: true }), 'ran');
    },
  ),

  guardCase(
    'inspect tells both marks, and rebase forgets them',
    async (fixture) => {
      const { guard, other } = fixture as typeof fixture & { readonly guard: GuardAdmin };
      await other.seal(WRITER);
      await other.claim(OLDER);
      assert.equal(textOf(await guard.inspect()), `${OLDER} after ${WRITER} sealed`);
      const restored = reader(9, 'a9', 'restored');
      const early = endingOf(guard.rebase(restored, { from: WRITER }));
      assertRefused(await early, 'not-confirmed', "the confirmation of the last writer's mark");
      await guard.rebase(restored, { from: OLDER });
      await guard.rebase(restored, { from: OLDER });
      assert.equal(textOf(await guard.inspect()), `${restored}`);
      assert.equal(await other.run(reader(8, 'a8', 'restored'), () => 'ran'), 'ran');
      assertRefused(
        await endingOf(other.run(token(8, 'a8', 'restored'), () => 0)),
        'stale-token',
        'a writer',
      );
      assertRefused(
        await endingOf(other.run(NEWER, () => 0)),
        'foreign-lineage',
        'a reader of the old lineage',
      );
    },
    'admin',
  ),
];
