// Transactions of the caller's own, and work that is one piece of synchronous code.
import assert from 'node:assert/strict';
import { sqliteGuard } from '@lockkeeper/resource-guard/sqlite';
import { NEW, OLD, onBank, read, reader, token, write } from './account.ts';
import { gate, rejectsWith, type SqliteCase, throwsWith } from './case.ts';
import { seesBusy } from './sees-busy.ts';

export const enterCases: readonly SqliteCase[] = [
  ...(['BEGIN', 'BEGIN IMMEDIATE'] as const).map(
    (begin): SqliteCase => ({
      name: `a claim waits for the end of a transaction that entered, by ${begin}`,
      run: onBank(async (bank, name) => {
        const db = bank.open();
        const guard = sqliteGuard(db, { resource: name });
        const watched = seesBusy(bank.open());
        const other = sqliteGuard(watched.db, { resource: name });
        await guard.claim(OLD);
        db.exec(begin);
        guard.enter(OLD);
        const busy = watched.nextBusy();
        const claim = other.claim(NEW);
        await busy;
        write(db, name, 'old');
        db.exec('COMMIT');
        await claim;
        assert.equal(await other.run(NEW, (handle) => read(handle, name)), 'old');
        db.exec(begin);
        const error = throwsWith(() => guard.enter(OLD), 'stale-token');
        assert.equal(String(error.current), String(NEW));
        db.exec('ROLLBACK');
      }),
    }),
  ),
  {
    name: 'entering refuses a transaction that read before the newest claim: retry',
    run: onBank(async (bank, name) => {
      const db = bank.open({ busyTimeoutMs: 0 });
      const guard = sqliteGuard(db, { resource: name });
      await guard.claim(OLD);
      db.exec('BEGIN');
      read(db, name);
      await bank.guard(name).claim(NEW);
      const error = throwsWith(() => guard.enter(OLD), 'retry');
      assert.equal(error.outcome, 'retry');
      db.exec('ROLLBACK; BEGIN');
      throwsWith(() => guard.enter(OLD), 'stale-token');
      guard.enter(NEW);
      db.exec('ROLLBACK');
    }),
  },
  {
    name: 'readers enter and work beside a newer one, until a writer has claimed',
    run: onBank(async (bank, name) => {
      const db = bank.open();
      const guard = sqliteGuard(db, { resource: name });
      const [older, newer] = [reader(2n), reader(3n)];
      await guard.claim(OLD);
      await bank.guard(name).claim(newer);
      throwsWith(() => guard.transaction(OLD, () => 0), 'stale-token');
      for (const each of [older, newer, reader(1n)]) {
        guard.transaction(each, (handle) => write(handle, name, String(each)), { requireClaim: true });
        assert.equal(read(db, name), String(each));
        db.exec('BEGIN IMMEDIATE');
        guard.enter(each);
        db.exec('COMMIT');
      }
      await bank.guard(name).claim(token(4n));
      throwsWith(() => guard.transaction(older, () => 0), 'stale-token');
      db.exec('BEGIN IMMEDIATE');
      throwsWith(() => guard.enter(newer), 'stale-token');
      db.exec('ROLLBACK');
    }),
  },
  {
    name: 'entering needs an open transaction and a token that claimed',
    run: onBank(async (bank, name) => {
      const db = bank.open();
      const guard = sqliteGuard(db, { resource: name });
      assert.match(throwsWith(() => guard.enter(OLD), 'invalid-option').message, /BEGIN IMMEDIATE/);
      db.exec('BEGIN');
      throwsWith(() => guard.enter(OLD), 'unclaimed');
      db.exec('ROLLBACK');
    }),
  },
  {
    name: 'an effect can enter a second guard: both tokens hold for one transaction, or nothing is written',
    run: onBank(async (bank, name) => {
      const db = bank.open();
      const second = bank.newAccount();
      const from = sqliteGuard(db, { resource: name });
      const to = sqliteGuard(db, { resource: second });
      await to.claim(NEW);
      const move = (as: typeof OLD) =>
        from.run(OLD, () => {
          write(db, name, 'out');
          to.enter(as);
          write(db, second, 'in');
        });
      await rejectsWith(move(OLD), 'stale-token');
      assert.equal(bank.peek(name), '');
      await move(NEW);
      assert.deepEqual([bank.peek(name), bank.peek(second)], ['out', 'in']);
    }),
  },
  {
    name: 'transaction() commits what its work wrote, and undoes it where the work throws',
    run: onBank(async (bank, name) => {
      const guard = bank.guard(name);
      const append = (as: typeof OLD, entry: string) =>
        guard.transaction(as, (db) => {
          const text = `${read(db, name)}${entry}`;
          write(db, name, text);
          return text;
        });
      assert.equal(append(OLD, 'a'), 'a');
      assert.equal(append(NEW, 'b'), 'ab');
      throwsWith(() => append(OLD, 'late'), 'stale-token');
      throwsWith(() => guard.transaction(token(3n), () => 0, { requireClaim: true }), 'unclaimed');
      const mine = new Error('mine');
      const failing = () =>
        guard.transaction(NEW, (db) => {
          write(db, name, 'undone');
          throw mine;
        });
      assert.throws(failing, (error) => error === mine);
      assert.equal(bank.peek(name), 'ab');
    }),
  },
  {
    name: 'transaction() refuses work that is not over when it returns, and turns that are not free',
    run: onBank(async (bank, name) => {
      const db = bank.open({ busyTimeoutMs: 20 });
      const guard = sqliteGuard(db, { resource: name });
      let begun = false;
      throwsWith(() => guard.transaction(OLD, async () => (begun = true)), 'invalid-option');
      assert.equal(begun, false);
      const promising = () =>
        guard.transaction(OLD, (handle) => {
          write(handle, name, 'x');
          return Promise.reject(new Error('later'));
        });
      assert.match(throwsWith(promising, 'invalid-option').message, /run\(\)/);
      assert.equal(bank.peek(name), '');

      const pause = gate();
      const running = guard.run(OLD, () => pause.opened);
      throwsWith(() => guard.transaction(OLD, () => 0), 'retry');
      pause.open();
      await running;

      db.exec('BEGIN');
      assert.match(throwsWith(() => guard.transaction(OLD, () => 0), 'invalid-option').message, /enter\(\)/);
      db.exec('ROLLBACK');

      const held = await bank.holdWrites(Promise.resolve());
      throwsWith(() => guard.transaction(OLD, () => 0), 'timeout');
      await held.letGo();
      assert.equal(
        guard.transaction(OLD, () => 'free'),
        'free',
      );
    }),
  },
];
