import type { Database, Statement } from './drivers.ts';

export interface Watched {
  readonly db: Database;
  /** Resolves when SQLite next refuses a statement of `db` because the file is locked. */
  nextBusy(): Promise<void>;
}

/** A database that tells when it is kept waiting, which SQLite shows to nobody else. */
export function seesBusy(real: Database): Watched {
  let tell = () => {};
  const watchStatement = (statement: Statement): Statement =>
    new Proxy(statement, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name, target);
        if (typeof member !== 'function') return member;
        if (name !== 'run') return member.bind(target);
        return (...parameters: unknown[]) => {
          try {
            return member.apply(target, parameters);
          } catch (error) {
            if (error instanceof Error && /database is locked/.test(error.message)) tell();
            throw error;
          }
        };
      },
    });
  const db = new Proxy(real, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== 'function') return member;
      if (name !== 'prepare') return member.bind(target);
      return (sql: string) => watchStatement(target.prepare(sql));
    },
  });
  return { db, nextBusy: () => new Promise((resolve) => (tell = resolve)) };
}
