// Kysely: the token is checked inside the transaction that Kysely opened, before anything is written in it.
import type { FencingToken } from '@lockkeeper/fencing';
import type { PostgresGuard, PostgresQueryable } from '@lockkeeper/resource-guard/postgres';
import { CompiledQuery, type Kysely, type Transaction } from 'kysely';

interface Database {
  account: { name: string; value: string };
}

/** A transaction of Kysely as `guard.enter` takes it. */
function queryable<DB>(trx: Transaction<DB>): PostgresQueryable {
  return { query: (text, values = []) => trx.executeQuery(CompiledQuery.raw(text, values)) };
}

export async function setBalance(
  db: Kysely<Database>,
  guard: PostgresGuard,
  token: FencingToken,
  account: { readonly name: string; readonly value: string },
): Promise<void> {
  await db.transaction().execute(async (trx) => {
    await guard.enter(queryable(trx), token);
    await trx
      .updateTable('account')
      .set({ value: account.value })
      .where('name', '=', account.name)
      .executeTakeFirstOrThrow();
  });
}
