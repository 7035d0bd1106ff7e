// One row in InnoDB that is written only through a guard, and the guard contract's view of it.
import type { GuardedValue, HeldWrites } from '@lockkeeper/resource-guard/contract';
import { type MysqlTransaction, mysqlGuard } from '@lockkeeper/resource-guard/mysql';
import mysql, { type Connection, type Pool, type PoolOptions, type RowDataPacket } from 'mysql2/promise';

let accounts = 0;

export const UPDATE_ACCOUNT = 'UPDATE account SET value = ? WHERE name = ?';

const MARIADB_WAITS = `SELECT 1 FROM information_schema.INNODB_LOCK_WAITS
  JOIN information_schema.INNODB_TRX ON trx_id = blocking_trx_id WHERE trx_mysql_thread_id = ?`;
const MYSQL_WAITS = `SELECT 1 FROM performance_schema.data_lock_waits
  JOIN performance_schema.threads ON THREAD_ID = BLOCKING_THREAD_ID WHERE PROCESSLIST_ID = ?`;

/** The accounts of one test file: its tables, and the connections of whoever looks on. */
export class MysqlBank implements AsyncDisposable {
  /** Looks on and holds rows; the guards under test have pools of their own. */
  readonly pool: Pool;
  readonly #url: string;
  readonly #pools: Pool[] = [];
  readonly #connections: Connection[] = [];

  /** Where MYSQL_URL names a MySQL, which understands less. */
  isMysql = false;

  private constructor(url: string) {
    this.#url = url;
    this.pool = this.newPool();
  }

  /** Where the tables are there already. */
  static to(url: string): MysqlBank {
    return new MysqlBank(url);
  }

  static async open(url: string): Promise<MysqlBank> {
    const bank = new MysqlBank(url);
    const [version] = await bank.pool.query('SELECT VERSION()');
    bank.isMysql = !JSON.stringify(version).includes('MariaDB');
    await mysqlGuard(bank.pool, { resource: 'any' }).migrate();
    await bank.pool.query(
      `CREATE TABLE IF NOT EXISTS account (name VARCHAR(190) PRIMARY KEY, value LONGTEXT NOT NULL) ENGINE=InnoDB`,
    );
    return bank;
  }

  newPool(options: PoolOptions = {}): Pool {
    const pool = mysql.createPool({ uri: this.#url, connectionLimit: 6, ...options });
    this.#pools.push(pool);
    return pool;
  }

  async newConnection(): Promise<Connection> {
    const connection = await mysql.createConnection({ uri: this.#url });
    connection.on('error', () => undefined);
    this.#connections.push(connection);
    return connection;
  }

  /** A name nobody used, with an empty account. */
  async newAccount(): Promise<string> {
    accounts += 1;
    const name = `account ${process.pid}-${Date.now()}-${accounts}`;
    await this.pool.query("INSERT INTO account VALUES (?, '')", [name]);
    return name;
  }

  async peek(name: string): Promise<string> {
    const [rows] = await this.pool.query<RowDataPacket[]>('SELECT value FROM account WHERE name = ?', [name]);
    return rows[0]?.['value'];
  }

  /** Holds the account's row like any other transaction would. */
  async holdWrites(name: string): Promise<HeldWrites> {
    const holder = await this.pool.getConnection();
    await holder.beginTransaction();
    const [rows] = await holder.query<RowDataPacket[]>(
      'SELECT CONNECTION_ID() AS id FROM account WHERE name = ? FOR UPDATE',
      [name],
    );
    return {
      reached: this.blockedBy(rows[0]?.['id']),
      letGo: async () => {
        await holder.commit();
        holder.release();
      },
    };
  }

  /** Resolves when somebody waits for a lock that the connection `id` holds or waits for itself. */
  async blockedBy(id: number): Promise<void> {
    await this.until(this.isMysql ? MYSQL_WAITS : MARIADB_WAITS, [id]);
  }

  /** Resolves when `query` gives a row. */
  async until(query: string, values: unknown[]): Promise<void> {
    for (;;) {
      // InnoDB shows its locks from a cache that it renews only when nobody looked for 100 ms.
      await new Promise((resolve) => setTimeout(resolve, 120));
      const [rows] = await this.pool.query<RowDataPacket[]>(query, values);
      if (rows.length !== 0) return;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const connection of this.#connections) connection.destroy();
    await Promise.all(this.#pools.map((pool) => pool.end().catch(() => undefined)));
  }
}

/** Reads and writes an account by plain SQL in the guard's transaction. */
export function rowAccess(name: string): Pick<GuardedValue<MysqlTransaction>, 'read' | 'write'> {
  return {
    read: async (tx) => {
      const [rows] = await tx.query<RowDataPacket[]>('SELECT value FROM account WHERE name = ?', [name]);
      return rows[0]?.['value'] ?? '';
    },
    write: async (tx, value) => {
      await tx.query(UPDATE_ACCOUNT, [value, name]);
    },
  };
}

export async function idOf(tx: MysqlTransaction): Promise<number> {
  const [rows] = await tx.query<RowDataPacket[]>('SELECT CONNECTION_ID() AS id');
  return rows[0]?.['id'];
}
