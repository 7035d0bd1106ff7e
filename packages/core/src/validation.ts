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

export function invalidOption(field: string, value: unknown, why: string): LockkeeperError {
  const shown = typeof value === 'string' ? JSON.stringify(value.slice(0, 200)) : String(value);
  return new LockkeeperError('invalid-option', `${field} is ${shown}; ${why}`);
}
