import { TestkitError } from './errors.ts';

/** Timers of Node know no longer time; one that is longer ends at once. */
const LONGEST_MS = 2 ** 31 - 1;

/**
 * What was given, or the default.
 * @throws TestkitError `invalid-option`
 */
export function checkMs(name: string, value: number | undefined, byDefault: number): number {
  if (value === undefined) return byDefault;
  if (typeof value === 'number' && value >= 0 && value <= LONGEST_MS) return value;
  throw invalid(name, value, 'milliseconds from 0 to 2^31-1');
}

/** @throws TestkitError `invalid-option` */
export function checkOneOf<T>(name: string, value: T | undefined, allowed: readonly T[]): void {
  if (value === undefined || allowed.includes(value)) return;
  throw invalid(name, value, allowed.join(', '));
}

/** @throws TestkitError `invalid-option` */
export function checkFunction(name: string, value: unknown): void {
  if (typeof value !== 'function') throw invalid(name, value, 'a function');
}

export function invalid(name: string, value: unknown, expected: string): TestkitError {
  const shown = typeof value === 'string' ? JSON.stringify(value) : showOther(value);
  return new TestkitError('invalid-option', `${name} is ${shown}; expected ${expected}`);
}

function showOther(value: unknown): string {
  if (typeof value === 'function') return 'a function';
  if (typeof value !== 'object' || value === null) return String(value);
  return Array.isArray(value) ? 'a list' : 'an object';
}
