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

export function optionalSignal(field: string, value: unknown): AbortSignal | undefined {
  if (value === undefined || value instanceof AbortSignal) return value;
  throw invalidOption(field, value, 'expected an AbortSignal');
}

export function invalidOption(field: string, value: unknown, why: string): LockkeeperError {
  const shown = typeof value === 'string' ? JSON.stringify(value.slice(0, 200)) : String(value);
  return new LockkeeperError('invalid-option', `${field} is ${shown}; ${why}`);
}
