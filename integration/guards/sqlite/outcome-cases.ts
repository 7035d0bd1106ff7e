// The outcomes: applied, certainly not applied, unknown; and what is refused before anything is sent.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { sqliteGuard, sqliteGuardSql } from '@lockkeeper/resource-guard/sqlite';
import { NEW, OLD, onBank, token, write } from './account.ts';
import { firstOf, rejectsWith, type SqliteCase, throwsWith } from './case.ts';

const run = promisify(execFile);

export const outcomeCases: readonly SqliteCase[] = [
  {
    name: 'a COMMIT that fails at the disk is unknown, and the connection goes on',
    run: onBank(async (bank, name) => {
      await bank.guard(name).claim(OLD);
      const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;
      const worker = fileURLToPath(new URL('full-disk-worker.ts', import.meta.url));
      // Files of this process can grow to one or two megabytes, by the shell.
      const { stdout } = await run('sh', [
        ...['-c', 'ulimit -f 2048 && exec "$0" "$@"', process.execPath],
        ...['--conditions=@lockkeeper/source', '--import', tsx],
        ...[worker, bank.driver.name, bank.path, name],
      ]);
      const { code, outcome, cause, next } = JSON.parse(stdout);
      assert.deepEqual({ code, outcome, next }, { code: 'unknown', outcome: 'unknown', next: 'next' });
      assert.match(cause, /disk I\/O error|full/);
      assert.equal(bank.peek(name), 'next');
    }),
  },
  {
    name: 'a constraint that fails at COMMIT leaves nothing applied for certain',
    run: onBank(async (bank, name) => {
      bank.observer.exec('CREATE TABLE child (name REFERENCES account (name) DEFERRABLE INITIALLY DEFERRED)');
      const guard = bank.guard(name);
      const orphan = guard.run(OLD, (db) => {
        write(db, name, 'x');
        db.exec("PRAGMA foreign_keys; INSERT INTO child VALUES ('nobody')");
      });
      const error = await rejectsWith(orphan, 'unavailable');
      assert.match(error.message, /FOREIGN KEY/);
      assert.equal(bank.peek(name), '');
      await guard.run(OLD, (db) => write(db, name, 'y'));
      assert.equal(bank.peek(name), 'y');
    }),
  },
  {
    name: 'a first run whose effect throws has claimed all the same',
    run: onBank(async (bank, name) => {
      const guard = bank.guard(name);
      await guard.claim(OLD);
      const mine = new Error('mine');
      const fail = () => {
        throw mine;
      };
      await assert.rejects(guard.run(NEW, fail), mine);
      await rejectsWith(
        guard.run(OLD, () => 0),
        'stale-token',
      );
      assert.throws(() => guard.transaction(token(3n), fail), mine);
      throwsWith(() => guard.transaction(NEW, () => 0), 'stale-token');
    }),
  },
  {
    name: 'a database without the table, read-only or closed is told apart',
    run: onBank(async (bank, name) => {
      const elsewhere = sqliteGuard(bank.open(), { resource: name, table: 'my guards' });
      const missing = await rejectsWith(elsewhere.claim(OLD), 'not-migrated');
      assert.match(missing.message, /"main"\."my guards".*migrate/);
      await rejectsWith(elsewhere.inspect(), 'not-migrated');
      await elsewhere.migrate();
      await elsewhere.migrate();
      bank.observer.exec(sqliteGuardSql({ table: 'my guards' }));
      await elsewhere.claim(OLD);

      const readonly = bank.open({ readonly: true });
      if (bank.driver.name === 'better-sqlite3') {
        throwsWith(() => sqliteGuard(readonly, { resource: name }), 'invalid-option');
      } else {
        const error = await rejectsWith(sqliteGuard(readonly, { resource: name }).claim(OLD), 'unavailable');
        assert.match(error.message, /read-only/);
      }

      const db = bank.open();
      const closing = sqliteGuard(db, { resource: name });
      await closing.claim(OLD);
      await rejectsWith(
        closing.run(OLD, (handle) => handle.close()),
        'unknown',
      );
      await rejectsWith(closing.claim(OLD), 'unavailable');
    }),
  },
  {
    name: 'a claim is synchronised to the disk whatever the caller chose, and the choice stays the caller’s',
    run: onBank(async (bank, name) => {
      const db = bank.open();
      db.exec('PRAGMA synchronous = NORMAL');
      const atCommit: number[] = [];
      const guard = sqliteGuard(
        new Proxy(db, {
          get: (target, key) => {
            const member: unknown = Reflect.get(target, key, target);
            if (key !== 'prepare') return typeof member === 'function' ? member.bind(target) : member;
            return (sql: string) => {
              const statement = target.prepare(sql);
              if (sql !== 'COMMIT') return statement;
              return {
                run: () => {
                  atCommit.push(Number(firstOf(target, 'PRAGMA synchronous')));
                  return statement.run();
                },
              };
            };
          },
        }),
        { resource: name },
      );
      await guard.claim(OLD);
      await guard.run(OLD, () => 0);
      await guard.seal(OLD);
      await guard.run(NEW, () => 0);
      guard.transaction(token(3n), () => 0);
      assert.deepEqual(atCommit, [3, 1, 3, 3, 1, 3, 1]);
      assert.equal(Number(firstOf(db, 'PRAGMA synchronous')), 1);
      assert.equal(Number(firstOf(db, 'PRAGMA busy_timeout')), 5_000);
    }),
  },
  {
    name: 'revisions are exact also where the database gives its rows in another shape',
    run: onBank(async (bank, name) => {
      const guard = sqliteGuard(bank.open({ unusualRows: true }), { resource: name });
      const last = token(2n ** 63n - 1n);
      await guard.claim(last);
      assert.equal((await guard.inspect())?.token.revision, 2n ** 63n - 1n);
      await rejectsWith(
        guard.run(token(2n ** 63n - 2n), () => 0),
        'stale-token',
      );
      assert.equal(await guard.run(last, () => 'ran', { requireClaim: true }), 'ran');
    }),
  },
  {
    name: 'bad input is refused with the field and the value, before anything is sent',
    run: onBank(async (bank, name) => {
      const db = bank.open();
      const asynchronous = { prepare() {}, exec() {}, parallelize() {} };
      const wrong: [unknown, object, RegExp][] = [
        [undefined, {}, /^db is undefined/],
        [{}, {}, /^db is a plain object.*better-sqlite3/],
        [{ $client: db }, {}, /"\$client"/],
        [asynchronous, {}, /asynchronous/],
        [db, { resource: '' }, /^resource is ""/],
        [db, { busyTimeoutMs: 0 }, /^busyTimeoutMs is 0/],
        [db, { requireClaim: 1 }, /^requireClaim is 1/],
        [db, { table: '' }, /^table is ""/],
        [db, { schema: 7 }, /^schema is 7/],
      ];
      for (const [database, options, message] of wrong) {
        const error = throwsWith(
          () => sqliteGuard(database as never, { resource: name, ...options }),
          'invalid-option',
        );
        assert.match(error.message, message);
      }
      const guard = bank.guard(name);
      await rejectsWith(guard.run(OLD, 'effect' as never), 'invalid-option');
      await rejectsWith(guard.claim('a:1:b' as never), 'invalid-token');
    }),
  },
];
