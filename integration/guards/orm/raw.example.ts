// Raw SQL in the style of Prisma: an interactive transaction with `$queryRawUnsafe` and `$executeRawUnsafe`.
import type { FencingToken } from '@lockkeeper/fencing';
import type { PostgresGuard, PostgresQueryable } from '@lockkeeper/resource-guard/postgres';

/** What is used of Prisma's `Prisma.TransactionClient`. */
export interface RawTransaction {
  $queryRawUnsafe<T = unknown>(query: string, ...values: unknown[]): PromiseLike<T>;
  $executeRawUnsafe(query: string, ...values: unknown[]): PromiseLike<number>;
}

/** What is used of `PrismaClient`. */
export interface RawClient {
  $transaction<T>(work: (tx: RawTransaction) => Promise<T>): Promise<T>;
}

/** An interactive transaction as `guard.enter` takes it. */
function queryable(tx: RawTransaction): PostgresQueryable {
  return { query: async (text, values = []) => tx.$queryRawUnsafe(text, ...values) };
}

export async function setBalance(
  prisma: RawClient,
  guard: PostgresGuard,
  token: FencingToken,
  account: { readonly name: string; readonly value: string },
): Promise<void> {
  await prisma.$transaction(async (tx) => {
    await guard.enter(queryable(tx), token);
    await tx.$executeRawUnsafe('UPDATE account SET value = $1 WHERE name = $2', account.value, account.name);
  });
}
