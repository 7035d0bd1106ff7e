import { canShiftClock, shiftedClock, startMariadb, startPostgres } from '@lockkeeper/testkit';
import { createConnection } from 'mysql2/promise';
import pg from 'pg';
import { expect, it } from 'vitest';

const DAY_MS = 86_400_000;

it.skipIf(!canShiftClock())(
  'a shifted clock is what PostgreSQL and MariaDB see',
  { timeout: 120_000 },
  async () => {
    await using clock = shiftedClock({ offsetMs: DAY_MS });
    await using postgres = await startPostgres({ clock });
    await using mariadb = await startMariadb({ clock });
    const sql = new pg.Client(postgres.url);
    await sql.connect();
    const mysql = await createConnection(mariadb.url);
    const ahead = async () => {
      const { rows } = await sql.query('select extract(epoch from clock_timestamp())::float8 * 1000 as ms');
      const [[row]] = (await mysql.query('select unix_timestamp(now(3)) * 1000 as ms')) as unknown as [
        [{ ms: string }],
      ];
      return [rows[0].ms, Number(row.ms)].map((ms) => Math.round((ms - Date.now()) / DAY_MS));
    };
    expect(await ahead()).toEqual([1, 1]);
    clock.shift(-2 * DAY_MS);
    expect(await ahead()).toEqual([-2, -2]);
    await mysql.end();
    await sql.end();
  },
);
