// What an effect reads and writes through. Nothing is sent before the effect has settled.
import { invalid } from '../options.ts';
import type { GuardedBytes } from './record.ts';

/** A claim sends the value along, so large ones are kept elsewhere. */
const LARGEST_VALUE_BYTES = 8 * 1024 * 1024;

export interface PutOptions {
  /** What readers are told that the value is. Default `text/plain; charset=utf-8` for text, else `application/octet-stream`. */
  readonly contentType?: string | undefined;
}

/** The guarded value inside an effect, and valid only there. */
export interface S3Handle {
  /** The value, `undefined` where none was ever put. What this effect has put itself, it sees. */
  get(): Uint8Array | undefined;
  /** The value as UTF-8. */
  text(): string | undefined;
  /**
   * Replaces the value when the effect has settled; the last one counts.
   * @param value - at most 8 MiB.
   */
  put(value: Uint8Array | string, options?: PutOptions): void;
}

export class Handle implements S3Handle {
  /** Whether the effect knows what it replaces: then it must not replace anything else. */
  hasRead = false;
  staged: GuardedBytes | undefined;
  readonly #before: GuardedBytes | undefined;
  #over = false;

  constructor(before: GuardedBytes | undefined) {
    this.#before = before;
  }

  get(): Uint8Array | undefined {
    this.#check();
    if (this.staged === undefined) this.hasRead = true;
    const bytes = (this.staged ?? this.#before)?.bytes;
    return bytes && new Uint8Array(bytes);
  }

  text(): string | undefined {
    const bytes = this.get();
    return bytes && Buffer.from(bytes).toString();
  }

  put(value: Uint8Array | string, options: PutOptions = {}): void {
    this.#check();
    this.staged = checkValue(value, options);
  }

  end(): void {
    this.#over = true;
  }

  #check(): void {
    if (this.#over) throw invalid('handle', this, 'its effect has settled; use it only inside');
  }
}

export function checkValue(value: unknown, options: PutOptions = {}): GuardedBytes {
  if (typeof value !== 'string' && !(value instanceof Uint8Array)) {
    throw invalid('value', value, 'expected text or a Uint8Array');
  }
  const bytes = typeof value === 'string' ? Buffer.from(value) : new Uint8Array(value);
  if (bytes.byteLength > LARGEST_VALUE_BYTES) {
    const why = `expected at most ${LARGEST_VALUE_BYTES} bytes; put larger things under keys of their own`;
    throw invalid('value', `${bytes.byteLength} bytes`, why);
  }
  const fallback = typeof value === 'string' ? 'text/plain; charset=utf-8' : 'application/octet-stream';
  const { contentType = fallback } = options;
  if (typeof contentType !== 'string' || contentType === '') {
    throw invalid('contentType', contentType, 'expected a non-empty string');
  }
  return { bytes, contentType };
}
