// A guard's state as columns of a table, under the same names in every SQL storage. Beside them a table has
// `resource` and `updated_at`.
import type { GuardState } from '@lockkeeper/fencing';

/** A value as a dialect has to write it. */
export type ColumnValue = string | bigint | boolean | null;

/** The last writer's mark has no lineage of its own: it is that of the token. */
export function columnsOf({ token, sealed, writer }: GuardState): Readonly<Record<string, ColumnValue>> {
  return {
    lineage: token.lineage,
    revision: token.revision,
    acquisition: token.acquisition,
    shared: token.shared,
    sealed,
    writer_revision: writer?.token.revision ?? null,
    writer_acquisition: writer?.token.acquisition ?? null,
    writer_sealed: writer?.sealed ?? null,
  };
}
