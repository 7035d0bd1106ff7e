// What an effect writes through: commands are checked and kept here, and leave together in the guard's script.
import { GuardError } from '@lockkeeper/fencing';
import { describe } from '../options.ts';
import { keyPlaces } from './commands.ts';
import { checkKey, type KeyRule, wrong } from './keys.ts';

/** A number is sent in decimal, text as UTF-8, bytes as they are. */
export type RedisValue = string | number | bigint | Uint8Array;

/** What Redis answered to one command of an effect, once its run has resolved. */
export interface RedisReply {
  /**
   * As the client gives it. Error replies make the run reject instead.
   * @throws {@link GuardError} `unknown` before the run has resolved, and where the reply was lost although
   * the command was certainly carried out, once.
   */
  readonly value: unknown;
}

/** The handle of an effect. Nothing that is queued through it is sent before the effect has resolved. */
export interface RedisTransaction {
  /** Queues `SET key value`. */
  set(key: string, value: RedisValue): RedisReply;
  /**
   * Queues one command that writes.
   * @throws {@link GuardError} `invalid-option` for a command whose keys are not known here, a wrong number of
   * arguments, a key in another hash slot, or a value that is neither text, number nor bytes.
   */
  command(name: string, ...args: readonly RedisValue[]): RedisReply;
  /**
   * Queues any command that scripts may call, of a module for instance. Every key it touches is in `keys`,
   * and each argument that equals one of them is taken for that key.
   */
  commandOn(keys: readonly string[], name: string, ...args: readonly RedisValue[]): RedisReply;
  /** Reads now, not what this effect has queued. Newer holders' claims are noticed at the end of the run. */
  get(key: string): Promise<string | null>;
  /** Any other command that only reads, now. The reply is as the client gives it. */
  read(name: string, ...args: readonly RedisValue[]): Promise<unknown>;
}

/** One word of a command on the wire. */
export type Word = string | Buffer;
export type SendRead = (key: string, words: readonly Word[]) => Promise<unknown>;

/** Lua hands a command's words over on its stack, which ends at about 8,000. */
const MOST_WORDS = 5_000;

/** The commands of one run. */
export class Effect implements RedisTransaction {
  readonly keys: string[];
  /** As the script reads them; see {@link SCRIPT}. */
  readonly words: Word[] = [];
  readonly #names: string[] = [];
  readonly #rule: KeyRule;
  readonly #send: SendRead;
  #over: string | undefined;
  #replies: readonly unknown[] | undefined;

  constructor(rule: KeyRule, send: SendRead) {
    this.#rule = rule;
    this.#send = send;
    this.keys = [rule.record];
  }

  set(key: string, value: RedisValue, ...more: readonly unknown[]): RedisReply {
    // Drivers take options here, and an EX that is dropped in silence is a key that stays for ever.
    if (more.length > 0) {
      const way = `tx.command('SET', key, value, ${more.map(describe).join(', ')})`;
      throw new GuardError('invalid-option', `set: expected a key and a value; for options use ${way}`);
    }
    return this.command('SET', key, value);
  }

  command(name: string, ...args: readonly RedisValue[]): RedisReply {
    return this.#queue(this.#check('write', name, args));
  }

  commandOn(keys: readonly string[], name: string, ...args: readonly RedisValue[]): RedisReply {
    return this.#queue(this.#checkOn(keys, name, args));
  }

  async get(key: string): Promise<string | null> {
    const reply = await this.read('GET', key);
    return reply === null || reply === undefined ? null : String(reply);
  }

  async read(name: string, ...args: readonly RedisValue[]): Promise<unknown> {
    const { words, places } = this.#check('read', name, args);
    return this.#send(words[(places[0] ?? 0) + 1] as string, words);
  }

  /** From now on its methods refuse. */
  end(): void {
    this.#over = 'its run was over';
  }

  answered(replies: readonly unknown[]): void {
    this.#replies = replies;
  }

  /** `SET {a}:balance`, the first command being 0. */
  describe(index: number): string {
    return `command ${index + 1} of ${this.#names.length}, ${this.#names[index]}`;
  }

  #queue({ words, places }: Checked): RedisReply {
    const index = this.#names.length;
    this.#names.push(`${words[0]} ${words[(places[0] ?? 0) + 1] ?? ''}`.trimEnd());
    for (const place of places) this.keys.push(words[place + 1] as string);
    const count = `${words.length}`;
    this.words.push(
      this.#rule.fromKeys ? `${count}:${places.map((place) => place + 2).join(',')}` : count,
      ...words,
    );
    const replyOf = () => this.#replyOf(index);
    return {
      get value() {
        return replyOf();
      },
    };
  }

  #replyOf(index: number): unknown {
    if (this.#replies !== undefined) return this.#replies[index];
    const what = `there is no reply to ${this.describe(index)}; the run has not resolved, or the reply was lost`;
    throw new GuardError('unknown', `guard "${this.#rule.resource}": ${what}`, {
      resource: this.#rule.resource,
    });
  }

  #check(kind: 'read' | 'write', name: unknown, args: readonly unknown[]): Checked {
    this.#checkOpen();
    const upper = typeof name === 'string' ? name.toUpperCase() : name;
    const places = typeof upper === 'string' ? keyPlaces(kind, upper, args) : 'expected its name';
    if (typeof places === 'string') throw wrong(`command is ${describe(upper)}; ${places}`, this.#rule);
    for (const place of places) checkKey(args[place], this.#rule);
    return { words: this.#words(upper as string, args), places };
  }

  #checkOn(keys: unknown, name: unknown, args: readonly unknown[]): Checked {
    this.#checkOpen();
    if (!Array.isArray(keys)) throw wrong(`keys is ${describe(keys)}; expected an array`, this.#rule);
    for (const key of keys) checkKey(key, this.#rule);
    if (typeof name !== 'string' || !/^[\w.-]+$/.test(name))
      throw wrong(`command is ${describe(name)}; expected its name`, this.#rule);
    // As a key that was not named: it would take the guard's own state away.
    if (args.includes(this.#rule.record)) checkKey(this.#rule.record, this.#rule);
    const places = args.flatMap((arg, place) => (keys.includes(arg) ? [place] : []));
    const unused = keys.find((key) => !args.includes(key));
    if (unused !== undefined)
      throw wrong(`keys has ${describe(unused)}, which is no argument of ${name}`, this.#rule);
    return { words: this.#words(name, args), places };
  }

  #checkOpen(): void {
    if (this.#over !== undefined) throw wrong(`the effect's handle was used after ${this.#over}`, this.#rule);
  }

  #words(name: string, args: readonly unknown[]): Word[] {
    if (args.length >= MOST_WORDS)
      throw wrong(`${name} has ${args.length} arguments; expected less than ${MOST_WORDS}`, this.#rule);
    return [name, ...args.map((arg) => this.#word(arg))];
  }

  #word(value: unknown): Word {
    if (typeof value === 'string') return value;
    if (typeof value === 'bigint' || (typeof value === 'number' && Number.isFinite(value)))
      return value.toString();
    if (Buffer.isBuffer(value)) return value;
    if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
    throw wrong(`an argument is ${describe(value)}; expected text, a finite number or bytes`, this.#rule);
  }
}

interface Checked {
  readonly words: readonly Word[];
  /** Places of keys among the arguments: one less than among the words. */
  readonly places: readonly number[];
}
