// Who waits for whom: for the file's write lock, for readers at COMMIT, for the turn on one connection.
import assert from 'node:assert/strict';
import { setTimeout as after, setImmediate as nextTurn } from 'node:timers/promises';
import { sqliteGuard } from '@lockkeeper/resource-guard/sqlite';
import { NEW, OLD, onBank, read, write } from './account.ts';
import type { SqliteCase } from './case.ts';
import { firstOf, gate, rejectsWith, throwsWith } from './case.ts';
import { seesBusy } from './sees-busy.ts';

export const lockCases: readonly SqliteCase[] = [
  {
    name: 'waits for the write lock without blocking the process, and leaves busy_timeout as it was',
    run: onBank(async (bank, name) => {
      const watched = seesBusy(bank.open({ busyTimeoutMs: 20_000 }));
      const guard = sqliteGuard(watched.db, { resource: name });
      await guard.claim(OLD);
      const busy = watched.nextBusy();
      const held = await bank.holdWrites(busy);
      const startedAt = performance.now();
      const run = guard.run(OLD, (db) => write(db, name, 'x'));
      await busy;
      await nextTurn();
      assert.ok(performance.now() - startedAt < 10_000, 'the process was blocked');
      assert.equal(Number(firstOf(watched.db, 'PRAGMA busy_timeout')), 20_000);
      await held.letGo();
      await run;
      assert.equal(bank.peek(name), 'x');
      assert.equal(Number(firstOf(watched.db, 'PRAGMA busy_timeout')), 20_000);
    }),
  },
  {
    name: 'gives up after busyTimeoutMs with timeout, and nothing was applied',
    run: onBank(async (bank, name) => {
      const guard = bank.guard(name, { busyTimeoutMs: 50 });
      const held = await bank.holdWrites(Promise.resolve());
      let effects = 0;
      for (const call of [
        () => guard.claim(OLD),
        () => guard.run(OLD, () => (effects += 1)),
        () => guard.seal(OLD),
      ]) {
        const error = await rejectsWith(call(), 'timeout');
        assert.equal(error.outcome, 'failed');
      }
      await held.letGo();
      assert.equal(effects, 0);
      assert.equal(await guard.inspect(), undefined);
      await guard.claim(OLD);
    }),
  },
  {
    name: 'a reader that keeps a rollback journal from COMMIT is waited for',
    run: onBank(async (bank, name) => {
      const watched = seesBusy(bank.open());
      const guard = sqliteGuard(watched.db, { resource: name });
      await guard.claim(OLD);
      const reader = bank.open();
      reader.exec('BEGIN');
      read(reader, name);
      const busy = watched.nextBusy();
      const run = guard.run(OLD, (db) => write(db, name, 'x'));
      await busy;
      assert.equal(read(reader, name), '');
      reader.exec('COMMIT');
      await run;
      assert.equal(bank.peek(name), 'x');
    }, 'DELETE'),
  },
  {
    name: 'a reader that keeps a rollback journal from COMMIT for too long means timeout, nothing applied',
    run: onBank(async (bank, name) => {
      const db = bank.open({ busyTimeoutMs: 20 });
      const patient = sqliteGuard(db, { resource: name });
      const guard = sqliteGuard(db, { resource: name, busyTimeoutMs: 50 });
      await patient.claim(OLD);
      const reader = bank.open();
      reader.exec('BEGIN');
      read(reader, name);
      await rejectsWith(
        guard.run(OLD, (db) => write(db, name, 'x')),
        'timeout',
      );
      await rejectsWith(guard.claim(NEW), 'timeout');
      throwsWith(() => guard.transaction(OLD, (db) => write(db, name, 'x')), 'timeout');
      reader.exec('COMMIT');
      assert.equal(bank.peek(name), '');
      await patient.run(OLD, (db) => write(db, name, 'y'));
      assert.equal(bank.peek(name), 'y');
    }, 'DELETE'),
  },
  {
    name: 'calls on one connection queue behind an effect that awaits, of whichever guard, for a limited time',
    run: onBank(async (bank, name) => {
      const db = bank.open();
      const guard = sqliteGuard(db, { resource: name });
      const another = sqliteGuard(db, { resource: bank.newAccount() });
      const hasty = sqliteGuard(db, { resource: name, busyTimeoutMs: 20 });
      const pause = gate();
      const order: string[] = [];
      const first = guard.run(OLD, async () => {
        await pause.opened;
        order.push('first');
      });
      const second = another.run(OLD, () => void order.push('second'));
      const third = guard.run(OLD, async () => void order.push('third'));
      await rejectsWith(hasty.claim(NEW), 'timeout');
      pause.open();
      await Promise.all([first, second, third]);
      assert.deepEqual(order, ['first', 'second', 'third']);
    }),
  },
  {
    name: 'a transaction of the caller’s own on the connection is waited for, and named where it stays open',
    run: onBank(async (bank, name) => {
      const db = bank.open();
      const guard = sqliteGuard(db, { resource: name, busyTimeoutMs: 50 });
      const patient = sqliteGuard(db, { resource: name });
      db.exec('BEGIN');
      write(db, name, 'own');
      const error = await rejectsWith(guard.claim(OLD), 'timeout');
      assert.match(error.message, /open transaction.*enter\(\)/);
      const claim = patient.claim(OLD);
      db.exec('COMMIT');
      await claim;
      assert.equal(bank.peek(name), 'own');
    }),
  },
  {
    name: 'an effect that does not await is one piece: nothing else on the connection is undone with it',
    run: onBank(async (bank, name) => {
      const db = bank.open();
      const guard = sqliteGuard(db, { resource: name });
      await guard.claim(OLD);
      const mine = new Error('mine');
      const fail = () => {
        write(db, name, 'undone');
        throw mine;
      };
      bank.observer.exec('CREATE TABLE note (text)');
      const note = db.prepare("INSERT INTO note VALUES ('x')");
      const notes = async (count: number) => {
        for (let done = 0; done < count; done++) {
          note.run();
          await undefined;
        }
      };
      // Each round is over in one turn of the event loop, with both sides taking turns in it.
      db.exec('PRAGMA synchronous = OFF');
      for (let round = 0; round < 20; round++) {
        await Promise.all([assert.rejects(guard.run(OLD, fail), mine), notes(10)]);
      }
      assert.equal(Number(firstOf(db, 'SELECT count(*) FROM note')), 200);
      assert.equal(bank.peek(name), '');
    }),
  },
  {
    name: 'inside an effect a call that would wait for that effect is refused',
    run: onBank(async (bank, name) => {
      const guard = bank.guard(name);
      await guard.run(OLD, async (db) => {
        await rejectsWith(guard.claim(NEW), 'invalid-option');
        const inner = sqliteGuard(db, { resource: `another` });
        await rejectsWith(
          inner.run(OLD, () => 0),
          'invalid-option',
        );
        throwsWith(() => inner.transaction(OLD, () => 0), 'invalid-option');
      });
    }),
  },
  {
    name: 'a signal that aborts during an effect ends the wait at once, and what the effect wrote is undone',
    run: onBank(async (bank, name) => {
      const guard = bank.guard(name);
      await guard.claim(OLD);
      const [begun, pause] = [gate(), gate()];
      const controller = new AbortController();
      const reason = new Error('no longer wanted');
      const run = guard.run(
        OLD,
        async (db) => {
          write(db, name, 'unwanted');
          begun.open();
          await pause.opened;
          write(db, name, 'still at work');
        },
        { signal: controller.signal },
      );
      await begun.opened;
      controller.abort(reason);
      await assert.rejects(run, reason);
      const next = guard.run(OLD, (db) => read(db, name));
      assert.equal(await Promise.race([next, after(30, 'waits')]), 'waits', 'the turn was given away');
      pause.open();
      assert.equal(await next, '');
      const inside = new AbortController();
      const sync = guard.run(
        OLD,
        (db) => {
          write(db, name, 'unwanted');
          inside.abort(reason);
        },
        { signal: inside.signal },
      );
      await assert.rejects(sync, reason);
      assert.equal(bank.peek(name), '');
    }),
  },
];
