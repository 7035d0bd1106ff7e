const toJSON = {
  value(this: object): object {
    return Object.fromEntries(
      Object.entries(this).map(([name, value]) => [name, typeof value === 'bigint' ? `${value}` : value]),
    );
  },
};

/**
 * Lets `JSON.stringify` print the bigints of a plain object, as decimal strings, which survive beyond 2^53.
 * Nothing that can be seen of the object changes; a copy of it (`{ ...object }`) does not have this.
 */
export function printable<T extends object>(value: T): T {
  return Object.defineProperty(value, 'toJSON', toJSON);
}
