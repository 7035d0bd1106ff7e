// The store that the matrix and the benchmark use, and an older copy of the file put back.
import assert from 'node:assert/strict';
import { openSqliteStore } from '../stores/sqlite.ts';
import { NEW, OLD } from './account.ts';
import { gate, rejectsWith, type SqliteCase } from './case.ts';

export const storeCases: readonly SqliteCase[] = [
  {
    name: 'what was promised outlives a restart, and a run in flight is undone by it',
    run: async () => {
      await using store = await openSqliteStore();
      const account = await store.newAccount();
      const [older, newer] = [await account.newClient(), await account.newClient()];
      await older.writeGuarded(OLD, 'old');
      const [begun, pause] = [gate(), gate()];
      const inFlight = older.guard.run(OLD, async (db) => {
        await older.write(db, 'in flight');
        begun.open();
        await pause.opened;
        await older.write(db, 'late');
      });
      await begun.opened;
      await store.restart();
      await newer.guard.claim(NEW);
      pause.open();
      await assert.rejects(inFlight, /not open/);
      await rejectsWith(older.writeGuarded(OLD, 'late'), 'stale-token');
      assert.equal(await account.peek(), 'old');
      await newer.writeGuarded(NEW, 'new');
      assert.equal(await newer.guard.run(NEW, (db) => newer.read(db)), 'new');
    },
  },
  {
    name: 'a state that no guard wrote refuses every call, and blames no token',
    run: async () => {
      await using store = await openSqliteStore();
      const account = await store.newAccount();
      const { guard } = await account.newClient();
      const { guard: other } = await account.newClient();
      await guard.run(OLD, (db) => void db.exec("UPDATE lockkeeper_guards SET lineage = 'not an id'"));
      const calls = [
        () => guard.claim(OLD),
        () => guard.seal(OLD),
        () => guard.run(OLD, () => 0),
        () => guard.inspect(),
        () => other.run(OLD, () => 0),
      ];
      for (const call of calls) {
        const { message } = await rejectsWith(call(), 'unavailable');
        assert.match(message, /the stored state is "not an id:/);
      }
    },
  },
  {
    name: 'an older copy of the file has forgotten the claims since: a new claim has to come first',
    run: async () => {
      await using store = await openSqliteStore();
      const account = await store.newAccount();
      const [older, newer] = [await account.newClient(), await account.newClient()];
      await older.guard.claim(OLD);
      const restore = await store.backup();
      await newer.guard.claim(NEW);
      await newer.writeGuarded(NEW, 'new');
      await restore();
      assert.equal(await account.peek(), '');
      assert.equal(String((await older.guard.inspect())?.token), String(OLD));
      await older.writeGuarded(OLD, 'stale, and accepted');
      await newer.guard.claim(NEW);
      await rejectsWith(older.writeGuarded(OLD, 'late'), 'stale-token');
    },
  },
];
