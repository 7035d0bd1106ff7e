// Several statements with parameters in one message of the extended protocol: one round trip, and still each a
// statement with a snapshot of its own. `pg` has no words for that, but takes any object that sends itself.
import { createHash } from 'node:crypto';
import type { PostgresClient, PostgresQuery, PostgresResult } from './client.ts';
import { type Callback, type Connection, type DriverQuery, queryClass, submitWhole } from './driver.ts';
import { sqlState } from './errors.ts';
import { literal } from './literal.ts';
import { type Status, statusOf } from './status.ts';
import { executeMessage, parseMessage } from './wire.ts';

/** A statement of the guard's own. Its name says all of its text, so that equal names are equal statements. */
export interface Statement {
  readonly name: string;
  readonly text: string;
  readonly values: readonly string[];
}

/** Two versions of this package may meet behind one pooler, so the name carries a digest of the text. */
export function ownStatement(what: string, text: string, values: readonly string[] = []): Statement {
  const digest = createHash('sha256').update(text).digest('hex').slice(0, 12);
  return { name: `lockkeeper ${digest} ${what}`, text, values };
}

/** The same for the simple protocol, in one message without parameters. */
export function asText(statements: readonly Statement[]): string {
  // The name of a table may hold what looks like a parameter.
  const filledIn = ({ text, values }: Statement) =>
    text.replace(/"(?:[^"]|"")*"|\$(\d)/g, (found, place?: string) =>
      place === undefined ? found : literal(values[Number(place) - 1] ?? ''),
    );
  return statements.map(filledIn).join('; ');
}

/** What the guard's own statements were answered. */
export interface Answers {
  /** The tags of the statements, such as `SELECT 1` and `COMMIT`. */
  readonly tags: readonly string[];
  /** The last row that the last of them read. */
  readonly row: readonly (string | null)[];
  /** Of the statement that came along. */
  readonly result: PostgresResult | undefined;
}

/** The statements that a connection has prepared, as far as it has answered. */
const prepared = new WeakMap<Connection, Set<string>>();
/** Poolers that hand a connection's statements to nobody: what was prepared is missing there. */
const nameless = new WeakSet<object>();

/** One message on its way; `answered` says how far the server came. */
export class Pipeline {
  readonly done: Promise<Answers>;
  /** How many statements were carried out, the one that came along included. */
  answered = 0;
  callback: Callback = () => undefined;
  readonly #source: object;
  readonly #own: readonly Statement[];
  readonly #named: boolean;
  readonly #along: DriverQuery | undefined;
  readonly #tags: string[] = [];
  #row: readonly (string | null)[] = [];
  #result: PostgresResult | undefined;
  #failure: unknown;
  #sent = false;
  #cancelled = false;
  #ended = false;
  #status: Status | undefined;

  /** @param along - the caller's statement, sent after the guard's own and before the end of the message. */
  constructor(client: PostgresClient, source: object, own: readonly Statement[], along?: PostgresQuery) {
    this.#source = source;
    this.#own = own;
    this.#named = !nameless.has(source);
    const Query = queryClass(client);
    if (along !== undefined && Query !== undefined) {
      this.#along = new Query(along);
      this.#along.callback = (error, result) => {
        this.#failure = error;
        this.#result = result as PostgresResult;
      };
    }
    this.done = new Promise((resolve, reject) => {
      this.callback = (error) => {
        if (error !== null && error !== undefined) reject(error);
        else resolve({ tags: this.#tags, row: this.#row, result: this.#result });
      };
    });
    (client as unknown as { query(submittable: Pipeline): void }).query(this);
  }

  /** Whether the statement that came along was carried out. */
  get alongAnswered(): boolean {
    return this.answered > this.#own.length;
  }

  /**
   * Whether `error` says that a prepared statement is not where the driver left it, as behind a pooler in transaction
   * mode that does not keep track of them. From then on the source is served without, this one's repeat too; others
   * that were on their way meanwhile learn it each for themselves.
   */
  lostPrepared(error: unknown): boolean {
    if (!this.#named || this.ownAnswered || sqlState(error) !== '26000') return false;
    nameless.add(this.#source);
    return true;
  }

  /** Whether the guard's own statements were carried out. */
  get ownAnswered(): boolean {
    return this.answered >= this.#own.length;
  }

  get wasSent(): boolean {
    return this.#sent;
  }

  /** Whether the server has answered all of it, and without an error. */
  get hasEnded(): boolean {
    return this.#ended;
  }

  /** Whether a transaction that somebody else had begun is still open, and this a part of it. */
  get isInTransaction(): boolean {
    return this.#status?.isInTransaction === true;
  }

  /** @returns whether it is certain that nothing has been sent and nothing will be. */
  cancel(): boolean {
    this.#cancelled = true;
    return !this.#sent;
  }

  // From here on the driver calls.

  /** It notes as prepared what bears a name while a statement is parsed: of ours we keep account ourselves. */
  get name(): string | undefined {
    return this.ownAnswered ? this.#along?.name : undefined;
  }

  get text(): string | undefined {
    return this.#along?.text;
  }

  /** It puts its type parsers in here. */
  get _result(): unknown {
    return this.#along?._result;
  }

  get binary(): unknown {
    return this.#along?.binary ?? true;
  }

  set binary(value: unknown) {
    if (this.#along !== undefined) this.#along.binary = value;
  }

  submit(connection: Connection): Error | null {
    if (this.#cancelled) return new Error('given up before it was sent');
    this.#sent = true;
    this.#status = statusOf(connection);
    connection.stream.cork?.();
    try {
      // Like the driver, which leaves it to the end of the connection to tell.
      if (connection.stream.writable) connection.stream.write(this.#ownMessage(connection));
      if (this.#along === undefined) {
        connection.sync();
        return null;
      }
      const along = this.#along;
      const hasFailed = () => this.#failure !== undefined;
      const refused = submitWhole((to) => along.submit(to), connection, hasFailed);
      if (refused === null) return null;
      // What it follows is harmless alone, and has to be answered.
      this.#failure = refused;
      connection.sync();
      return null;
    } finally {
      connection.stream.uncork?.();
    }
  }

  #ownMessage(connection: Connection): Buffer {
    const known = preparedBy(connection);
    if (this.#named && this.#own.every(({ name }) => known.has(name))) return executeAll(this.#own);
    return Buffer.concat(
      this.#own.flatMap(({ name, text, values }) => {
        if (!this.#named) return [parseMessage('', text), executeMessage('', values)];
        // Where its answer was lost, it may be prepared although it is not known to be.
        const make = known.has(name) ? [] : [parseMessage(name, text)];
        return [...make, executeMessage(name, values)];
      }),
    );
  }

  handleRowDescription(message: unknown): void {
    if (this.ownAnswered) this.#along?.handleRowDescription(message);
  }

  handleDataRow(message: { readonly fields: readonly (string | null)[] }): void {
    if (this.ownAnswered) this.#along?.handleDataRow(message);
    else this.#row = message.fields;
  }

  handleCommandComplete(message: { readonly text: string }, connection: Connection): void {
    const statement = this.#own[this.answered];
    this.answered += 1;
    if (statement === undefined) {
      this.#along?.handleCommandComplete(message, connection);
      return;
    }
    if (this.#named) preparedBy(connection).add(statement.name);
    this.#tags.push(message.text);
    if (!this.ownAnswered) this.#row = [];
  }

  handleError(error: unknown, connection: Connection): void {
    const name = this.#along?.name;
    // The driver believes that it was parsed, which the server skipped.
    if (name && connection?.submittedNamedStatements) delete connection.submittedNamedStatements[name];
    const missing = this.#own[this.answered];
    if (sqlState(error) === '26000' && missing) preparedBy(connection).delete(missing.name);
    this.callback(error);
  }

  handleReadyForQuery(connection: Connection): void {
    this.#ended = true;
    if (this.alongAnswered) this.#along?.handleReadyForQuery(connection);
    this.callback(this.#failure);
  }

  handlePortalSuspended(): void {}
  handleEmptyQuery(): void {}
  handleCopyInResponse(): void {}
  handleCopyData(): void {}
}

/** What is sent again and again as it is, such as the check of one token. */
const messages = new WeakMap<readonly Statement[], Buffer>();

function executeAll(statements: readonly Statement[]): Buffer {
  const made = messages.get(statements);
  if (made !== undefined) return made;
  const message = Buffer.concat(statements.map(({ name, values }) => executeMessage(name, values)));
  messages.set(statements, message);
  return message;
}

function preparedBy(connection: Connection): Set<string> {
  const known = prepared.get(connection) ?? new Set();
  prepared.set(connection, known);
  return known;
}
