// Sealing, effects that fail or overlap, and signals.
import assert from 'node:assert/strict';
import { GuardError } from '@lockkeeper/fencing';
import type { GuardCase } from './subject.ts';
import { again, assertAccepted, assertRefused, endingOf, guardCase, token, within } from './support.ts';

const OLD = token(1);
const NEW = token(2);

export const effectCases: readonly GuardCase[] = [
  guardCase('a sealed hold writes nothing more before the next claim', async ({ guard, other, value }) => {
    await guard.claim(OLD);
    await guard.run(OLD, (handle) => value.write(handle, 'old'));
    await other.seal(OLD);
    await other.seal(OLD);
    const late = await endingOf(guard.run(OLD, (handle) => value.write(handle, 'late')));
    assertRefused(late, 'sealed', 'the late write');
    assertRefused(await endingOf(guard.claim(OLD)), 'sealed', 'a claim of the sealed hold');
    assert.equal(await value.peek(), 'old');
    await other.claim(NEW);
    await guard.seal(OLD);
    await other.run(NEW, (handle) => value.write(handle, 'new'), { requireClaim: true });
    assert.equal(await value.peek(), 'new');
  }),

  guardCase('no write of a hold follows its seal', async ({ guard, other, value }, scope) => {
    await guard.claim(OLD);
    const pause = scope.gate();
    const late = scope.call(
      guard.run(OLD, async (handle) => {
        await pause.pass();
        await value.write(handle, 'late');
      }),
    );
    await within(pause.reached, 'the run');
    const seal = scope.call(other.seal(OLD));
    await scope.tempt(seal);
    const atSeal = seal.now && (await value.peek());
    pause.open();
    const lateEnding = await late.ending('the run');
    assertAccepted(await seal.ending('the seal'), 'the seal');
    const atEnd = await value.peek();
    if (atSeal !== undefined) assert.equal(atEnd, atSeal, 'the value changed after the seal');
    assert.equal(atEnd, lateEnding.ok ? 'late' : '', 'what the run was told');
  }),

  guardCase('a run gives what its effect gives, a plain value or a promise', async ({ guard }) => {
    assert.equal(await guard.run(OLD, () => 'plain'), 'plain');
    assert.equal(await guard.run(OLD, async () => 'promised'), 'promised');
    assert.equal(await guard.run(OLD, () => undefined), undefined);
  }),

  guardCase('what an effect throws comes out untouched', async ({ guard }) => {
    await guard.claim(OLD);
    for (const thrown of [new Error('mine'), Object.freeze({ plain: true }), undefined, 'text']) {
      const effects = [
        () => {
          throw thrown;
        },
        () => Promise.reject(thrown),
      ];
      for (const effect of effects) {
        const ending = await endingOf(guard.run(OLD, effect));
        assert.ok(!ending.ok, `a run whose effect threw ${String(thrown)} resolved`);
        assert.equal(ending.error, thrown);
      }
    }
    assert.equal(await guard.run(OLD, () => 'next'), 'next');
  }),

  guardCase(
    'the writes of an effect that throws are undone',
    async ({ guard, value }) => {
      await guard.claim(OLD);
      await guard.run(OLD, (handle) => value.write(handle, 'kept'));
      const mine = new Error('mine');
      const failing = guard.run(OLD, async (handle) => {
        await value.write(handle, 'undone');
        throw mine;
      });
      const ending = await endingOf(failing);
      assert.ok(!ending.ok && ending.error === mine);
      assert.equal(await value.peek(), 'kept');
    },
    'rollback',
  ),

  guardCase(
    'runs of one holder overlap',
    async ({ guard, other }, scope) => {
      await guard.claim(OLD);
      const [first, second, third] = [scope.gate(), scope.gate(), scope.gate()];
      const runs = [
        guard.run(OLD, () => first.pass()),
        guard.run(OLD, () => second.pass()),
        other.run(OLD, () => third.pass()),
      ].map((run) => scope.call(run));
      await within(Promise.all([first.reached, second.reached, third.reached]), 'three runs at once');
      for (const gate of [first, second, third]) gate.open();
      for (const run of runs) assertAccepted(await run.ending('a run'), 'a run');
    },
    'overlap',
  ),

  guardCase(
    'a signal that aborted already stops every verb before it begins',
    async ({ guard, other, value }) => {
      await guard.claim(OLD);
      const reason = new Error('no longer wanted');
      const options = { signal: AbortSignal.abort(reason) };
      const calls = [
        guard.claim(NEW, options),
        guard.seal(NEW, options),
        guard.run(NEW, (handle) => value.write(handle, 'unwanted'), options),
      ];
      for (const call of calls) {
        const ending = await endingOf(call);
        assert.ok(
          !ending.ok && ending.error === reason,
          `expected the signal's reason, got ${JSON.stringify(ending)}`,
        );
      }
      assert.equal(await other.run(OLD, () => 'still', { requireClaim: true }), 'still');
      assert.equal(await value.peek(), '');
    },
  ),

  guardCase(
    'a signal ends the wait of a claim, and the guard goes on',
    async ({ guard, other, value }, scope) => {
      await guard.claim(OLD);
      const pause = scope.gate();
      const inFlight = scope.call(guard.run(OLD, () => pause.pass()));
      await within(pause.reached, 'the run in flight');
      const controller = new AbortController();
      const claim = scope.call(other.claim(NEW, { signal: controller.signal }));
      await scope.tempt(claim);
      const reason = new Error('no longer wanted');
      controller.abort(reason);
      const ending = await claim.ending('the aborted claim');
      const unknown = !ending.ok && ending.error instanceof GuardError && ending.error.code === 'unknown';
      const stopped = !ending.ok && ending.error === reason;
      const done = ending.ok;
      assert.ok(stopped || unknown || done, 'expected the reason, unknown, or a claim that was through');
      pause.open();
      await inFlight.ending('the run in flight');
      if (stopped) {
        await guard.run(OLD, (handle) => value.write(handle, 'still'), { requireClaim: true });
        assert.equal(await value.peek(), 'still');
      }
      await again(() => other.claim(token(3)));
      assertRefused(await endingOf(guard.run(OLD, () => 0)), 'stale-token', 'a run after the next claim');
    },
  ),
];
