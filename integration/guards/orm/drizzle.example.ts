// Drizzle over `pg`: the token is checked inside the transaction that Drizzle opened, before anything is written.
import type { FencingToken } from '@lockkeeper/fencing';
import type { PostgresGuard, PostgresQueryable } from '@lockkeeper/resource-guard/postgres';
import { eq, type SQLWrapper, sql } from 'drizzle-orm';
import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
import { pgTable, text } from 'drizzle-orm/pg-core';

const accounts = pgTable('account', { name: text().primaryKey(), value: text().notNull() });

/** A transaction of Drizzle as `guard.enter` takes it, which sends text without parameters. */
function queryable(tx: { execute(query: SQLWrapper): PromiseLike<unknown> }): PostgresQueryable {
  return { query: async (text) => tx.execute(sql.raw(text)) };
}

export async function setBalance(
  db: NodePgDatabase,
  guard: PostgresGuard,
  token: FencingToken,
  account: { readonly name: string; readonly value: string },
): Promise<void> {
  await db.transaction(async (tx) => {
    await guard.enter(queryable(tx), token);
    await tx.update(accounts).set({ value: account.value }).where(eq(accounts.name, account.name));
  });
}
