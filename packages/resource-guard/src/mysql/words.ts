// Which statements may run inside the guarded transaction. MySQL commits silently before many others (ALTER,
// TRUNCATE, LOCK TABLES …), and those would then act unguarded, so what is not known to stay inside is not sent. Nor
// is USE, after which the connection's next guarded call would ask another database's guard.

const INSIDE =
  /^(select|insert|update|delete|replace|with|values|table|do|set(?!\s+password)|show|describe|desc|explain|savepoint|release\s+savepoint|rollback\s+(work\s+)?to|call|execute|prepare|deallocate|drop\s+prepare|load\s+data|handler|signal|get\s+diagnostics|create\s+(or\s+replace\s+)?temporary|drop\s+temporary|analyze\s+(format|select|update|delete|insert|replace)|begin\s+not\s+atomic)\b/i;

/** Spaces, brackets and plain comments; not the comments that the server executes. */
const BEFORE = /^(\s|\(|--\s[^\n]*(\n|$)|#[^\n]*(\n|$)|\/\*(?![!M])[\s\S]*?\*\/)+/;

function meat(sql: string): string {
  return sql.replace(BEFORE, '');
}

/** Whether `sql` by its first words stays in the transaction that it runs in. */
export function staysInside(sql: string): boolean {
  return INSIDE.test(meat(sql));
}

/** Whether what `sql` does is written elsewhere, so that only the server can tell what it did. */
export function runsOtherCode(sql: string): boolean {
  return /^(call|execute|begin|set\s+statement)\b/i.test(meat(sql));
}

export function isSavepoint(sql: string): boolean {
  return /^savepoint\b/i.test(meat(sql));
}

/** Whether `sql` may give an AUTO_INCREMENT value. */
export function inserts(sql: string): boolean {
  return /^(insert|replace|load)\b/i.test(meat(sql));
}
