// What a new holder may rely on: late writes of the old one never come after its claim, and nothing that was
// accepted before is missed.
import assert from 'node:assert/strict';
import type { GuardCase } from './subject.ts';
import {
  again,
  assertAccepted,
  assertRefused,
  type Call,
  endingOf,
  guardCase,
  token,
  within,
  work,
} from './support.ts';

const OLD = token(1);
const NEW = token(2);

export const handOverCases: readonly GuardCase[] = [
  guardCase(
    'a late write is refused after the claim, before the new holder wrote anything',
    async (fixture) => {
      const { guard, other, value } = fixture;
      await guard.claim(OLD);
      await guard.run(OLD, (handle) => value.write(handle, 'old'));
      await other.claim(NEW);
      const late = await endingOf(guard.run(OLD, (handle) => value.write(handle, 'late')));
      assertRefused(late, 'stale-token', 'the late write');
      assert.equal(await value.peek(), 'old');
    },
  ),

  guardCase(
    'no older write follows a claim: one paused between its check and its write',
    async (fixture, scope) => {
      const { guard, other, value } = fixture;
      await guard.claim(OLD);
      const pause = scope.gate();
      const late = scope.call(
        guard.run(OLD, async (handle) => {
          await pause.pass();
          await value.write(handle, 'late');
        }),
      );
      await within(pause.reached, 'the older run');
      const claim = scope.call(other.claim(NEW));
      await scope.tempt(claim);
      const atClaim = claim.now && (await value.peek());
      pause.open();
      const lateEnding = await late.ending('the older run');
      assertAccepted(await claim.ending('the claim'), 'the claim');
      const atEnd = await value.peek();
      if (atClaim !== undefined) assert.equal(atEnd, atClaim, 'the value changed after the claim');
      assert.equal(atEnd, lateEnding.ok ? 'late' : '', 'what the older run was told');
      assertRefused(await endingOf(guard.run(OLD, () => 0)), 'stale-token', 'a later run');
    },
  ),

  guardCase(
    'no older write follows a claim: one that waits inside the storage',
    async ({ guard, other, value }, scope) => {
      await guard.claim(OLD);
      const held = await scope.holdWrites(value);
      const late = scope.call(guard.run(OLD, (handle) => value.write(handle, 'late')));
      await within(held.reached, 'the older write');
      const claim = scope.call(other.claim(NEW));
      await scope.tempt(claim);
      const atClaim = claim.now && (await value.peek());
      await held.letGo();
      const lateEnding = await late.ending('the older run');
      assertAccepted(await claim.ending('the claim'), 'the claim');
      const atEnd = await value.peek();
      if (atClaim !== undefined) assert.equal(atEnd, atClaim, 'the value changed after the claim');
      assert.equal(atEnd, lateEnding.ok ? 'late' : '', 'what the older run was told');
    },
    'held-writes',
  ),

  guardCase(
    'a run that came after a pending claim is refused, or was done before it',
    async (fixture, scope) => {
      const { guard, other, value } = fixture;
      await guard.claim(OLD);
      const pause = scope.gate();
      const inFlight = scope.call(guard.run(OLD, () => pause.pass()));
      await within(pause.reached, 'the older run');
      const claim = scope.call(other.claim(NEW));
      await scope.tempt(claim);
      const behind = scope.call(guard.run(OLD, (handle) => value.write(handle, 'behind')));
      await scope.tempt(behind);
      pause.open();
      await inFlight.ending('the run in flight');
      assertAccepted(await claim.ending('the claim'), 'the claim');
      const seen = await other.run(NEW, (handle) => value.read(handle));
      const ending = await behind.ending('the run behind the claim');
      if (!ending.ok) assertRefused(ending, 'stale-token', 'the run behind the claim');
      assert.equal(seen, ending.ok ? 'behind' : '', 'what the new holder reads');
      assert.equal(await value.peek(), seen);
    },
  ),

  guardCase('after its claim a holder reads every write that was accepted before', async (fixture, scope) => {
    const { guard, other, value } = fixture;
    await guard.claim(OLD);
    const pause = scope.gate();
    const older = scope.call(
      guard.run(OLD, async (handle) => {
        await value.write(handle, 'accepted');
        await pause.pass();
      }),
    );
    await within(pause.reached, 'the older run');
    const newer = scope.call(
      other.claim(NEW).then(() => other.run(NEW, async (handle) => value.read(handle))),
    );
    await scope.tempt(newer);
    pause.open();
    const accepted = (await older.ending('the older run')).ok;
    const seen = assertAccepted(await newer.ending('claim and read'), 'claim and read');
    assert.equal(seen, accepted ? 'accepted' : '');
  }),

  guardCase(
    'the first run of a newer token reads every write that was accepted before',
    async (fixture, scope) => {
      const { guard, other, value } = fixture;
      await guard.claim(OLD);
      const pause = scope.gate();
      const older = scope.call(
        guard.run(OLD, async (handle) => {
          await value.write(handle, 'accepted');
          await pause.pass();
        }),
      );
      await within(pause.reached, 'the older run');
      const newer = scope.call(other.run(NEW, (handle) => value.read(handle)));
      await scope.tempt(newer);
      pause.open();
      const accepted = (await older.ending('the older run')).ok;
      const seen = assertAccepted(await newer.ending('the newer run'), 'the newer run');
      assert.equal(seen, accepted ? 'accepted' : '');
      assertRefused(await endingOf(guard.run(OLD, () => 0)), 'stale-token', 'a later run of the older token');
    },
  ),

  guardCase('no older write follows the first run of a newer token', async (fixture, scope) => {
    const { guard, other, value } = fixture;
    await guard.claim(OLD);
    const pause = scope.gate();
    const older = scope.call(
      guard.run(OLD, async (handle) => {
        await pause.pass();
        await value.write(handle, 'late');
      }),
    );
    await within(pause.reached, 'the older run');
    const newer = scope.call(other.run(NEW, (handle) => value.write(handle, 'new')));
    await scope.tempt(newer);
    pause.open();
    await older.ending('the older run');
    assertAccepted(await newer.ending('the newer run'), 'the newer run');
    assert.equal(await value.peek(), 'new');
  }),

  guardCase(
    'first runs of several newer tokens at once neither hang nor go backwards',
    async (fixture, scope) => {
      const { guard, other, value } = fixture;
      await guard.claim(OLD);
      const pause = scope.gate();
      const inFlight = scope.call(guard.run(OLD, () => pause.pass()));
      await within(pause.reached, 'the run in flight');
      const revisions = [4, 2, 5, 3];
      const runs = revisions.map((revision, index) =>
        scope.call(
          again(() =>
            (index % 2 === 0 ? guard : other).run(token(revision), async (handle) => {
              await value.write(handle, `${revision}`);
            }),
          ),
        ),
      );
      await scope.tempt(runs[0] as Call<void>);
      pause.open();
      await inFlight.ending('the run in flight');
      for (const [index, run] of runs.entries()) {
        const ending = await run.ending(`the run of ${revisions[index]}`);
        if (revisions[index] === 5) assertAccepted(ending, 'the run of the highest token');
        else if (!ending.ok) assertRefused(ending, 'stale-token', `the run of ${revisions[index]}`);
      }
      assert.equal(await value.peek(), '5');
    },
  ),

  guardCase('a claim is not starved by a stream of overlapping runs', async ({ guard, other }, scope) => {
    await guard.claim(OLD);
    // So that its claim below does not wait for a connection first.
    await other.claim(OLD);
    // Reached only by a claim that starves: a busy storage may well serve a few dozen runs before it looks at one.
    const limit = 200;
    let runsSince = 0;
    let claim: Call<void> | undefined;
    const writer = async () => {
      while (claim?.now === undefined && runsSince < limit) {
        const ending = await endingOf(
          guard.run(OLD, () => work(15)),
          'a run of the stream',
        );
        if (!ending.ok) {
          assertRefused(ending, 'stale-token', 'a run of the stream');
          return;
        }
        if (claim !== undefined) runsSince += 1;
      }
    };
    const writers: Call<void>[] = [];
    for (let count = 0; count < 4; count++) {
      writers.push(scope.call(writer()));
      await work(4);
    }
    claim = scope.call(other.claim(NEW));
    for (const each of writers) assertAccepted(await each.ending('a writer'), 'a writer');
    assert.ok(runsSince < limit, `the claim still waits after ${runsSince} later runs`);
    assertAccepted(await claim.ending('the claim'), 'the claim');
  }),

  guardCase('no accepted write is lost over a chain of hand-overs', async (fixture, scope) => {
    const { guard, other, value } = fixture;
    const accepted: string[] = [];
    const holders: Call<void>[] = [];
    for (let revision = 1; revision <= 6; revision++) {
      const mine = revision % 2 === 0 ? guard : other;
      await again(() => mine.claim(token(revision)));
      const firstWrite = scope.gate();
      const hold = async () => {
        for (let write = 1; write <= 50; write++) {
          const entry = `${revision}.${write}`;
          const append = () =>
            mine.run(token(revision), async (handle) => {
              const before = await value.read(handle);
              await work(1);
              await value.write(handle, `${before} ${entry}`);
            });
          const ending = await endingOf(again(append), entry);
          if (!ending.ok) {
            assertRefused(ending, 'stale-token', entry);
            return;
          }
          accepted.push(entry);
          if (write === 2) firstWrite.open();
        }
      };
      holders.push(scope.call(hold()));
      await within(firstWrite.pass(), `holder ${revision}`);
    }
    for (const holder of holders) assertAccepted(await holder.ending('a holder'), 'a holder');
    const entries = (await value.peek()).split(' ').filter((entry) => entry !== '');
    assert.deepEqual([...entries].sort(), [...accepted].sort(), 'accepted writes and what is left of them');
    const revisions = entries.map((entry) => Number.parseInt(entry, 10));
    assert.deepEqual(
      revisions,
      [...revisions].sort((a, b) => a - b),
      'writes in the order of their tokens',
    );
  }),
];
