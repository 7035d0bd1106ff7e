// What a reply of `mysql2` tells: `[rows, columns]`, `[header, undefined]`, or of several results
// `[[rows or header, …], [columns or undefined, …]]`.

/** SERVER_STATUS_IN_TRANS of the MySQL protocol, which every reply without rows carries. */
const IN_TRANSACTION = 1;

interface Header {
  readonly serverStatus?: unknown;
}

/** The results in a reply, one each. */
export function resultsOf(reply: unknown): readonly (readonly [result: unknown, columns: unknown])[] {
  if (!Array.isArray(reply)) return [];
  const [result, columns] = reply as readonly unknown[];
  const several =
    Array.isArray(result) &&
    Array.isArray(columns) &&
    columns.some((column) => column === undefined || Array.isArray(column));
  if (!several) return [[result, columns]];
  return result.map((one, index) => [one, (columns as readonly unknown[])[index]]);
}

/** Whether a transaction is open after this reply; `undefined` where the reply does not say. */
export function isInTransaction(reply: unknown): boolean | undefined {
  const [last] = resultsOf(reply).at(-1) ?? [];
  if (typeof last !== 'object' || last === null || Array.isArray(last)) return undefined;
  const { serverStatus } = last as Header;
  return typeof serverStatus === 'number' ? (serverStatus & IN_TRANSACTION) !== 0 : undefined;
}

/** The rows of the first result that has any columns. */
export function rowsOf(reply: unknown): readonly unknown[] {
  for (const [result] of resultsOf(reply)) if (Array.isArray(result)) return result;
  return [];
}

/** One row of one column: `undefined` for no row, `null` where the row holds nothing. */
export type Row = string | null | undefined;

/** Reads the first row of a reply to a statement of ours, which gives rows as arrays. */
export function readRow(reply: unknown): Row {
  const [row] = rowsOf(reply);
  return columnOf(Array.isArray(row) ? row[0] : undefined);
}

/** Reads the column `state` through an adapter: `[rows, columns]`, `{ rows }` or the rows. */
export function readAnswer(reply: unknown): Row {
  const answer = Array.isArray(reply) ? reply : (reply as { readonly rows?: unknown } | undefined)?.rows;
  if (!Array.isArray(answer)) return undefined;
  const rows = Array.isArray(answer[0]) ? answer[0] : answer;
  const [row] = rows as readonly unknown[];
  if (typeof row !== 'object' || row === null) return undefined;
  return columnOf(Array.isArray(row) ? row[0] : (row as { readonly state?: unknown }).state);
}

function columnOf(value: unknown): Row {
  return value === undefined || value === null ? value : String(value);
}
