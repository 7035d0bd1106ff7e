import type { CallOptions } from './coordinator/coordinator.ts';
import { LockkeeperError } from './errors.ts';

/** A number of milliseconds within bounds. Fractions are fine; NaN, infinities and strings are not. */
export function duration(
  field: string,
  value: unknown,
  bounds: { readonly min: number; readonly max?: number },
): number {
  const max = bounds.max ?? Number.MAX_SAFE_INTEGER;
  if (typeof value === 'number' && value >= bounds.min && value <= max) return value;
  const hint = value === Number.POSITIVE_INFINITY ? '; leave it out for no limit' : '';
  throw invalidOption(field, value, `expected milliseconds from ${bounds.min} to ${max}${hint}`);
}

export function optionalDuration(
  field: string,
  value: unknown,
  bounds: { readonly min: number; readonly max?: number },
): number | undefined {
  return value === undefined ? undefined : duration(field, value, bounds);
}

/** Options come as an object; `null`, a string or a function is a mistake, not an empty bag. */
export function checkObject(field: string, value: unknown): void {
  if (typeof value !== 'object' || value === null) throw invalidOption(field, value, 'expected an object');
}

/** An object of another party's making, known by its methods. */
export function checkMethods(field: string, value: unknown, methods: readonly string[]): void {
  const given = Object(value) as Record<string, unknown>;
  const missing = methods.filter((method) => typeof given[method] !== 'function');
  if (missing.length > 0)
    throw invalidOption(field, value, `it lacks ${missing.map((name) => `${name}()`).join(', ')}`);
}

export function optionalSignal(field: string, value: unknown): AbortSignal | undefined {
  if (value === undefined || value instanceof AbortSignal) return value;
  throw invalidOption(field, value, 'expected an AbortSignal');
}

/** How long one call may take, and what ends it; whatever else the options have is left out. */
export function checkCall(options: unknown): CallOptions {
  checkObject('options', options);
  const { timeoutMs, signal } = options as Record<string, unknown>;
  return {
    timeoutMs: optionalDuration('timeoutMs', timeoutMs, { min: 0 }),
    signal: optionalSignal('signal', signal),
  };
}

export function invalidOption(field: string, value: unknown, why: string): LockkeeperError {
  return new LockkeeperError('invalid-option', `${field} is ${shown(value)}; ${why}`);
}

const MOST_ELEMENTS = 10;
const MOST_CHARACTERS = 200;

function shown(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, MOST_CHARACTERS));
  if (!Array.isArray(value)) return asText(value).slice(0, MOST_CHARACTERS);
  const first = value.slice(0, MOST_ELEMENTS).map((each) => (Array.isArray(each) ? '[…]' : shown(each)));
  return `[${[...first, ...(value.length > MOST_ELEMENTS ? ['…'] : [])].join(', ')}]`;
}

function asText(value: unknown): string {
  try {
    return String(value);
  } catch {
    // It has no `toString`, or one that throws.
    return `a value of type ${typeof value}`;
  }
}
