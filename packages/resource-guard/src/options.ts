// What a caller hands to a guard is checked here, before anything is sent; every message names field and value.
import { FencingToken, GuardError } from '@lockkeeper/fencing';

const LONGEST_RESOURCE_BYTES = 1024;
/** PostgreSQL, like most storages, keeps timeouts in a signed 32-bit integer of milliseconds. */
const LONGEST_MS = 2 ** 31 - 1;

export function checkResource(value: unknown): string {
  if (typeof value !== 'string' || value === '')
    throw invalid('resource', value, 'expected a non-empty string');
  if (/\0|\p{Surrogate}/u.test(value))
    throw invalid('resource', value, 'expected well-formed text without NUL');
  if (Buffer.byteLength(value) > LONGEST_RESOURCE_BYTES) {
    throw invalid('resource', value, `expected at most ${LONGEST_RESOURCE_BYTES} bytes of UTF-8`);
  }
  return value;
}

export function checkFlag(field: string, value: unknown, fallback: boolean): boolean {
  if (value === undefined) return fallback;
  if (typeof value === 'boolean') return value;
  throw invalid(field, value, 'expected true or false');
}

export function checkMs(field: string, value: unknown, fallback: number): number {
  if (value === undefined) return fallback;
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= LONGEST_MS) return value;
  throw invalid(field, value, `expected whole milliseconds from 1 to ${LONGEST_MS}`);
}

/** A token from another copy of the package, or from JavaScript, is checked part by part. */
export function checkToken(value: FencingToken): FencingToken {
  if (typeof value === 'object' && value !== null) {
    const { lineage, token, forSlot } = value as { lineage?: unknown; token?: unknown; forSlot?: unknown };
    if (lineage === undefined && (token !== undefined || forSlot !== undefined)) {
      const way = forSlot === undefined ? 'pass hold.token' : 'use permit.token.forSlot(slot)';
      throw new GuardError('invalid-token', `fencing token: got ${describe(value)}; ${way}`);
    }
    return new FencingToken(value);
  }
  throw new GuardError('invalid-token', `fencing token: expected a FencingToken, got ${describe(value)}`);
}

export function checkEffect(value: unknown): void {
  if (typeof value !== 'function') throw invalid('effect', value, 'expected a function');
}

export function invalid(field: string, value: unknown, why: string): GuardError {
  return new GuardError('invalid-option', `${field} is ${describe(value)}; ${why}`);
}

/** A value as a message can show it: short, and never throwing. */
export function describe(value: unknown): string {
  if (typeof value === 'string')
    return JSON.stringify(value.length > 100 ? `${value.slice(0, 100)}…` : value);
  if (typeof value === 'function') return `a function (${value.name || 'anonymous'})`;
  if (typeof value !== 'object' || value === null) return String(value);
  const name: unknown = value.constructor?.name;
  return typeof name === 'string' && name !== 'Object' ? `a ${name}` : 'a plain object';
}
