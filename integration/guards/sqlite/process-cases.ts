// Several processes on one file. SQLite cannot end a frozen writer: claims time out, and nothing is lost.
import assert from 'node:assert/strict';
import { startWorker } from '@lockkeeper/testkit';
import { type Bank, NEW, OLD, onBank, read, write } from './account.ts';
import { rejectsWith, type SqliteCase } from './case.ts';

const startWriter = (bank: Bank, name: string, job: string) =>
  startWorker<Ending, { readonly type: 'go' }>(new URL('writer-worker.ts', import.meta.url), {
    args: [job, bank.driver.name, bank.path, name],
    pauseAt: { 'between check and write': {} },
  });

export const processCases: readonly SqliteCase[] = [
  {
    name: 'a process frozen between its check and its write keeps a claim out until it goes on',
    run: onBank(async (bank, name) => {
      await using writer = await startWriter(bank, name, 'freeze');
      const pause = writer.pauseAt('between check and write');
      await pause.reached();
      const db = bank.open();
      const { guard, append } = newHolder(bank, name, 300);
      await rejectsWith(guard.claim(NEW), 'timeout');
      // Readers and operators are not kept out.
      assert.equal(read(db, name), '');
      assert.equal(String((await guard.inspect())?.token), String(OLD));
      await pause.resume();
      assert.equal((await writer.next('first')).code, 'applied');
      const patient = newHolder(bank, name, 10_000);
      await patient.guard.claim(NEW);
      await append('b1 ');
      writer.send({ type: 'go' });
      assert.equal((await writer.next('second')).code, 'stale-token');
      assert.equal(bank.peek(name), 'a1 b1 ');
    }),
  },
  {
    name: 'a process killed between its check and its write leaves nothing behind',
    run: onBank(async (bank, name) => {
      await using writer = await startWriter(bank, name, 'freeze');
      await writer.pauseAt('between check and write').reached();
      const { guard, append } = newHolder(bank, name, 10_000);
      const claim = guard.claim(NEW);
      await writer.kill();
      await claim;
      await append('b1 ');
      assert.equal(bank.peek(name), 'b1 ');
    }),
  },
  {
    name: 'two processes at once lose no update',
    run: onBank(async (bank, name) => {
      await bank.guard(name).claim(OLD);
      await using first = await startWriter(bank, name, 'count');
      await using second = await startWriter(bank, name, 'count');
      await Promise.all([first, second].map((writer) => writer.next('ready')));
      for (const writer of [first, second]) writer.send({ type: 'go' });
      await Promise.all([first, second].map((writer) => writer.next('done')));
      assert.equal(bank.peek(name).length, 200);
    }),
  },
];

type Ending =
  | { readonly type: 'first' | 'second'; readonly code: string }
  | { readonly type: 'ready' | 'done' };

function newHolder(bank: Bank, name: string, busyTimeoutMs: number) {
  const guard = bank.guard(name, { busyTimeoutMs });
  const append = (entry: string) => guard.run(NEW, (db) => write(db, name, `${read(db, name)}${entry}`));
  return { guard, append };
}
