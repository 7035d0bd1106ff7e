// An effect that leaves the guarded transaction, by accident or not: it is told so, and what it writes in a
// transaction that it opened itself is not committed.
import assert from 'node:assert/strict';
import { NEW, OLD, onBank, write } from './account.ts';
import { rejectsWith, type SqliteCase, throwsWith } from './case.ts';
import type { Database } from './drivers.ts';

const ESCAPES: readonly (readonly string[])[] = [
  ['COMMIT', 'BEGIN'],
  ['END', 'BEGIN IMMEDIATE'],
  ['ROLLBACK', 'BEGIN'],
  ['ROLLBACK; BEGIN EXCLUSIVE'],
  ['SAVEPOINT a', 'ROLLBACK', 'SAVEPOINT a'],
  ['COMMIT', 'BEGIN', 'COMMIT', 'BEGIN'],
];

const escapes = ESCAPES.map(
  (statements): SqliteCase => ({
    name: `an effect that does ${statements.join(', ')} is unknown, and its late write is not committed`,
    run: onBank(async (bank, name) => {
      const guard = bank.guard(name);
      const other = bank.guard(name);
      await guard.claim(OLD);
      const leave = (db: Database) => {
        for (const statement of statements) db.exec(statement);
        write(db, name, 'late');
      };
      const async = guard.run(OLD, async (db) => {
        await undefined;
        leave(db);
      });
      const error = await rejectsWith(async, 'unknown');
      assert.match(error.message, /ended the transaction/);
      throwsWith(() => guard.transaction(OLD, leave), 'unknown');
      assert.equal(bank.peek(name), '');
      // Nothing is left open on the connection.
      await other.claim(NEW);
      await rejectsWith(
        guard.run(OLD, () => 0),
        'stale-token',
      );
    }),
  }),
);

export const escapeCases: readonly SqliteCase[] = [
  ...escapes,
  {
    name: 'what an effect committed itself stays, which is unknown also where it then throws',
    run: onBank(async (bank, name) => {
      const guard = bank.guard(name);
      const mine = new Error('mine');
      const run = guard.run(OLD, (db) => {
        write(db, name, 'early');
        db.exec('COMMIT');
        throw mine;
      });
      const error = await rejectsWith(run, 'unknown');
      assert.equal(error.cause, mine);
      assert.equal(bank.peek(name), 'early');
    }),
  },
  {
    name: 'SQLite’s own ROLLBACK inside an effect is noticed, although the effect went on',
    run: onBank(async (bank, name) => {
      const guard = bank.guard(name);
      const run = guard.run(OLD, (db) => {
        write(db, name, 'undone');
        const again = db.prepare('INSERT OR ROLLBACK INTO account VALUES (?, ?)');
        assert.throws(() => again.run(name, 'x'));
      });
      await rejectsWith(run, 'unknown');
      assert.equal(bank.peek(name), '');
    }),
  },
  {
    name: 'an effect is not suspected for savepoints of its own',
    run: onBank(async (bank, name) => {
      const guard = bank.guard(name);
      await guard.run(OLD, (db) => {
        for (const statement of ['SAVEPOINT a', 'SAVEPOINT b', 'ROLLBACK TO b', 'RELEASE a', 'SAVEPOINT c'])
          db.exec(statement);
        write(db, name, 'kept');
      });
      assert.equal(bank.peek(name), 'kept');
    }),
  },
  {
    name: 'an iterator that an effect leaves open keeps nothing from being decided',
    run: onBank(async (bank, name) => {
      const guard = bank.guard(name, { busyTimeoutMs: 50 });
      bank.newAccount();
      await guard.claim(OLD);
      let iterator: Iterator<unknown> | undefined;
      const run = guard.run(OLD, (db) => {
        write(db, name, 'x');
        iterator = db.prepare('SELECT name FROM account').iterate()[Symbol.iterator]();
        iterator.next();
      });
      // better-sqlite3 refuses COMMIT and ROLLBACK until it is closed; node:sqlite does not mind.
      if (bank.driver.name === 'better-sqlite3') {
        await rejectsWith(run, 'unknown');
        iterator?.return?.();
        await guard.run(OLD, () => 0);
        assert.equal(bank.peek(name), '');
      } else {
        await run;
        assert.equal(bank.peek(name), 'x');
      }
    }),
  },
];
