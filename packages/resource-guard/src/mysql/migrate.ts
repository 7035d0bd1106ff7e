import { ownQuery } from './client.ts';
import { type ErrorContext, make } from './errors.ts';
import { readRow } from './reply.ts';
import { createTable, engineOf, type MysqlGuardTable, tableName } from './sql.ts';
import { type Condition, type Source, takeTurn } from './turn.ts';

/** Creates the table unless it exists: looking needs fewer privileges than CREATE TABLE IF NOT EXISTS. */
export async function migrate(source: Source, named: MysqlGuardTable, context: ErrorContext): Promise<void> {
  const { connection, giveBack } = await takeTurn(source, context, undefined);
  const ask = async (sql: string) => readRow(await connection.query(ownQuery(sql)));
  let condition: Condition = 'doubtful';
  try {
    let engine = await ask(engineOf(named));
    if (typeof engine !== 'string') {
      await ask(createTable(tableName(named)));
      engine = await ask(engineOf(named));
    }
    condition = 'clean';
    if (engine?.toLowerCase() === 'innodb') return;
    const what = `the table ${context.table} is of the engine ${engine}, which cannot guard; make it InnoDB`;
    throw make('not-migrated', what, undefined, context);
  } catch (error) {
    if (condition === 'clean') throw error;
    throw make('unavailable', `creating ${context.table} failed`, error, context);
  } finally {
    giveBack(condition);
  }
}
