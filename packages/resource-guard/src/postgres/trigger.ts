// SQL for a trigger that stops, or notes, the writes of those who forget the guard. It believes nobody: it takes
// the writer's turn itself, which costs nothing where the writer has it, and compares with the state.
import { checkResource, invalid } from '../options.ts';
import { literal, quote } from './literal.ts';
import { advisoryKey, checkIdentifier, type GuardTable, STATE, TURNS, tableName } from './sql.ts';

/** What the trigger's errors bear: there is no turn, or its token is no longer in force. */
export const UNGUARDED = 'LK001';
export const SUPERSEDED = 'LK002';

interface TriggerTable extends GuardTable {
  /** The table whose writes are watched. */
  readonly on: { readonly schema?: string | undefined; readonly table: string };
  /** `enforce` raises an error; `audit` lets the write pass and notes it in `lockkeeper_audit`. */
  readonly mode: 'enforce' | 'audit';
}

/** One guard for the whole table, or one for each value of a column. */
export type PostgresGuardTriggerOptions = TriggerTable &
  (
    | { /** The guard's own `resource`. */ readonly resource: string; readonly resourceColumn?: undefined }
    | {
        readonly resource?: undefined;
        /** The column that names the resource of a row, as text. Rows where it is NULL belong to no guard. */
        readonly resourceColumn: string;
        /** Put before the column's text, as in `account/` for the resource `account/7`. Default: nothing. */
        readonly resourcePrefix?: string | undefined;
      }
  );

/**
 * SQL to run once, as a role that owns the watched table and has SELECT and UPDATE on the guard's: under REPEATABLE
 * READ and SERIALIZABLE the trigger locks its row, with that role's rights.
 */
export interface PostgresGuardTriggerSql {
  /** Running it again replaces the trigger, its mode included. Locks the watched table for a moment. */
  readonly install: string;
  /** Running it again does nothing. What was noted stays. */
  readonly drop: string;
}

/**
 * The SQL of a trigger that watches INSERT, UPDATE, DELETE and TRUNCATE of one table, after each statement. A
 * transaction may write what it holds a turn for, by `run`, `query` or `enter` of a guard of this version: it has
 * noted the turn's token, the trigger takes the same lock, and the token has to be the one in force.
 *
 * Else `enforce` raises SQLSTATE `LK001` (no turn) or `LK002` (the token is not in force), which undoes the
 * statement, and `audit` lets it pass and adds a row to `lockkeeper_audit`, in the schema of the guard's table: who,
 * when, which table, how many rows, `application_name`, the statement. TRUNCATE of a table with `resourceColumn`
 * concerns every guard and so is never a guarded write.
 *
 * **It helps against forgetting, not against malice.** It does not see superusers and owners who disable it,
 * `session_replication_role = replica` (replication, some restores), writes to a partition or a child table that
 * has no trigger of its own, nor any other table.
 *
 * @throws GuardError `invalid-option`
 */
export function postgresGuardTriggerSql(options: PostgresGuardTriggerOptions): PostgresGuardTriggerSql {
  const guardTable = tableName(options);
  if (typeof options.on !== 'object' || options.on === null)
    throw invalid('on', options.on, 'expected { table }');
  const target = tableName({
    schema: options.on.schema,
    table: checkIdentifier('on.table', options.on.table),
  });
  const { mode } = options;
  if (mode !== 'enforce' && mode !== 'audit') throw invalid('mode', mode, 'expected "enforce" or "audit"');
  const names = namesFor(options, target);
  const drop = [...EVENTS, 'TRUNCATE'].map(
    (event) => `DROP TRIGGER IF EXISTS ${names.trigger(event)} ON ${target};`,
  );
  const install = [
    'BEGIN;',
    ...(mode === 'audit' ? [auditTable(names.audit)] : []),
    checkFunction(names, guardTable),
    `REVOKE ALL ON FUNCTION ${names.check}(text) FROM PUBLIC;`,
    watchFunction(names, options, target),
    ...drop,
    ...EVENTS.map((event) => createTrigger(names, target, event)),
    `CREATE TRIGGER ${names.trigger('TRUNCATE')} AFTER TRUNCATE ON ${target}
  FOR EACH STATEMENT EXECUTE FUNCTION ${names.watch}();`,
    'COMMIT;',
  ];
  const gone = `DO ${literal(`BEGIN IF to_regclass(${literal(target)}) IS NOT NULL THEN\n${drop.join('\n')}\nEND IF; END`)};`;
  return {
    install: `${install.join('\n')}\n`,
    drop: `BEGIN;\n${gone}\nDROP FUNCTION IF EXISTS ${names.watch}();\nCOMMIT;\n`,
  };
}

const EVENTS = ['INSERT', 'UPDATE', 'DELETE'] as const;

interface Names {
  readonly check: string;
  readonly watch: string;
  readonly audit: string;
  trigger(event: string): string;
}

/** One guard's table may watch many, so each has a function of its own; one check serves them all. */
function namesFor(options: GuardTable, target: string): Names {
  const schema = quote(options.schema ?? 'public');
  const digest = (text: string) => BigInt.asUintN(64, advisoryKey(text)).toString(16);
  return {
    check: `${schema}.${quote(`lockkeeper_check_${digest(tableName(options))}`)}`,
    watch: `${schema}.${quote(`lockkeeper_watch_${digest(target)}`)}`,
    audit: `${schema}.lockkeeper_audit`,
    trigger: (event) => quote(`lockkeeper_${event.toLowerCase()}`),
  };
}

function auditTable(audit: string): string {
  return `CREATE TABLE IF NOT EXISTS ${audit} (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  role text NOT NULL,
  application_name text NOT NULL,
  client inet,
  table_name text NOT NULL,
  operation text NOT NULL,
  resource text,
  rows bigint,
  reason text NOT NULL,
  statement text
);`;
}

/** NULL where this transaction may write `resource`, else the reason why not. Runs with its owner's rights. */
function checkFunction({ check }: Names, guardTable: string): string {
  const json = `'["@lockkeeper/resource-guard",' || to_json(${literal(guardTable)}::text)::text || ',' || to_json(resource)::text || ']'`;
  return `CREATE OR REPLACE FUNCTION ${check}(resource text) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS ${dollar(`
DECLARE
  turns text := ' ' || coalesce(current_setting('${TURNS}', true), '') || ' ';
  key bigint := ('x' || encode(substring(sha256(convert_to(${json}, 'UTF8')) FOR 8), 'hex'))::bit(64)::bigint;
  state text;
  mark text[];
  token text;
  at_revision numeric;
BEGIN
  IF position(' ' || key || '=' IN turns) = 0 THEN RETURN 'no turn'; END IF;
  -- At once, where the writer has it: the turn of a setting that was left behind or made up is no turn.
  PERFORM pg_advisory_xact_lock_shared(key);
  IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
    -- The snapshot may be older than the turn. Locking the row shows the latest state, or fails.
    SELECT ${STATE} INTO state FROM ${guardTable} AS guard WHERE guard.resource = $1 FOR SHARE;
  ELSE
    SELECT ${STATE} INTO state FROM ${guardTable} AS guard WHERE guard.resource = $1;
  END IF;
  mark := string_to_array(state, ' ');
  FOREACH token IN ARRAY string_to_array(turns, ' ') LOOP
    CONTINUE WHEN NOT starts_with(token, key || '=');
    token := substr(token, length(key || '=') + 1);
    IF token = mark[1] THEN
      IF mark[2] = '0' THEN RETURN NULL; END IF;
    ELSIF mark[1] LIKE '%:shared' AND token ~ '^[^:]+:[0-9]+:[^:]+:shared$' THEN
      -- A reader beside another one: what it stands above is the last writer, which it may have been itself.
      at_revision := split_part(token, ':', 2)::numeric;
      IF split_part(token, ':', 1) = split_part(state, ':', 1) AND at_revision < split_part(state, ':', 2)::numeric
        AND (mark[3] IS NULL OR at_revision > split_part(mark[3], ':', 2)::numeric
          OR (token = mark[3] || ':shared' AND mark[4] = '0'))
      THEN RETURN NULL; END IF;
    END IF;
  END LOOP;
  RETURN 'its token is not in force' || coalesce(' (in force: ' || split_part(state, ' ', 1) || ')', '');
END`)};`;
}

function watchFunction(names: Names, options: PostgresGuardTriggerOptions, target: string): string {
  return `CREATE OR REPLACE FUNCTION ${names.watch}() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS ${dollar(`
DECLARE
  written record;
  reason text;
BEGIN
  FOR written IN ${writtenResources(options)} LOOP
    IF written.resource IS NULL THEN reason := 'no turn';
    ELSE reason := ${names.check}(written.resource); END IF;
    CONTINUE WHEN reason IS NULL;
    ${options.mode === 'enforce' ? raise(target) : note(names.audit)}
  END LOOP;
  RETURN NULL;
END`)};`;
}

/** A query with the columns `resource` and `rows`; a `resource` of NULL stands for all of them. */
function writtenResources(options: PostgresGuardTriggerOptions): string {
  const { resource }: { readonly resource?: unknown } = options;
  if (options.resourceColumn === undefined) {
    return `SELECT ${literal(checkResource(resource))}::text AS resource, NULL::bigint AS rows`;
  }
  if (resource !== undefined) {
    throw invalid('resource', resource, 'expected either resource or resourceColumn');
  }
  const { resourcePrefix = '' } = options;
  if (typeof resourcePrefix !== 'string') throw invalid('resourcePrefix', resourcePrefix, 'expected a text');
  const column = quote(checkIdentifier('resourceColumn', options.resourceColumn));
  const counted = (rows: string) =>
    `SELECT ${literal(resourcePrefix)} || ${column}::text AS resource, count(*) AS rows FROM ${rows} WHERE ${column} IS NOT NULL GROUP BY 1`;
  const before = counted('old_rows');
  const after = counted('new_rows');
  // Each branch names only the rows that its event has.
  return `EXECUTE CASE TG_OP
      WHEN 'INSERT' THEN ${literal(after)}
      WHEN 'DELETE' THEN ${literal(before)}
      WHEN 'UPDATE' THEN ${literal(`SELECT resource, max(rows) AS rows FROM (${before} UNION ALL ${after}) AS either GROUP BY 1`)}
      ELSE 'SELECT NULL::text AS resource, NULL::bigint AS rows' END`;
}

function raise(target: string): string {
  return `RAISE EXCEPTION '% of % without a turn of guard "%": %', TG_OP, ${literal(target)}, coalesce(written.resource, '*'), reason
      USING ERRCODE = CASE reason WHEN 'no turn' THEN '${UNGUARDED}' ELSE '${SUPERSEDED}' END,
        HINT = 'Write through the guard: guard.query, guard.run, or guard.enter inside your own transaction.';`;
}

function note(audit: string): string {
  return `INSERT INTO ${audit} (role, application_name, client, table_name, operation, resource, rows, reason, statement)
    VALUES (session_user, current_setting('application_name'), inet_client_addr(), TG_RELID::regclass::text, TG_OP,
      written.resource, written.rows, reason, current_query());`;
}

function createTrigger(names: Names, target: string, event: (typeof EVENTS)[number]): string {
  const rows = {
    INSERT: 'NEW TABLE AS new_rows',
    UPDATE: 'NEW TABLE AS new_rows OLD TABLE AS old_rows',
    DELETE: 'OLD TABLE AS old_rows',
  }[event];
  return `CREATE TRIGGER ${names.trigger(event)} AFTER ${event} ON ${target} REFERENCING ${rows}
  FOR EACH STATEMENT EXECUTE FUNCTION ${names.watch}();`;
}

/** Quotes a function's body; a tag of our own, since a column may be called `$$`. */
function dollar(body: string): string {
  return `$lockkeeper$${body}$lockkeeper$`;
}
