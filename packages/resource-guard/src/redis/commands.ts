// The commands that an effect may send: where their keys are, and how many words they take at least and at most.

/** Where the keys are among a command's arguments: `pairs` are the first, third, fifth … */
type Keys = 'first' | 'two' | 'all' | 'pairs' | 'counted';

interface Shape {
  readonly keys: Keys;
  readonly min: number;
  readonly max: number;
}

function shapes(keys: Keys, min: number, max: number, names: string): [string, Shape][] {
  return names.split(' ').map((name) => [name, { keys, min, max }]);
}

/** Commands that write. Arguments are counted without the command's name. */
const WRITES: ReadonlyMap<string, Shape> = new Map([
  ...shapes('first', 1, 1, 'INCR DECR PERSIST GETDEL'),
  ...shapes('first', 2, 2, 'INCRBY DECRBY INCRBYFLOAT APPEND GETSET SETNX'),
  ...shapes('first', 1, 2, 'LPOP RPOP SPOP ZPOPMIN ZPOPMAX'),
  ...shapes('first', 1, 3, 'GETEX'),
  ...shapes('first', 2, 3, 'EXPIRE PEXPIRE EXPIREAT PEXPIREAT'),
  ...shapes('first', 2, 8, 'SET'),
  ...shapes(
    'first',
    3,
    3,
    'SETEX PSETEX SETRANGE SETBIT HSETNX HINCRBY HINCRBYFLOAT ZINCRBY LSET LREM LTRIM',
  ),
  ...shapes('first', 3, 3, 'ZREMRANGEBYRANK ZREMRANGEBYSCORE ZREMRANGEBYLEX'),
  ...shapes('first', 4, 4, 'LINSERT'),
  ...shapes('first', 2, Number.POSITIVE_INFINITY, 'HDEL SADD SREM ZREM LPUSH RPUSH LPUSHX RPUSHX XDEL PFADD'),
  ...shapes('first', 3, Number.POSITIVE_INFINITY, 'HSET HMSET ZADD XTRIM XACK BITFIELD'),
  ...shapes('first', 4, Number.POSITIVE_INFINITY, 'XADD GEOADD'),
  ...shapes('two', 2, 2, 'RENAME RENAMENX RPOPLPUSH'),
  ...shapes('two', 3, 3, 'SMOVE'),
  ...shapes('two', 4, 4, 'LMOVE'),
  ...shapes('two', 2, 5, 'COPY'),
  ...shapes('all', 1, Number.POSITIVE_INFINITY, 'DEL UNLINK TOUCH'),
  ...shapes('all', 2, Number.POSITIVE_INFINITY, 'SUNIONSTORE SINTERSTORE SDIFFSTORE PFMERGE'),
  ...shapes('pairs', 2, Number.POSITIVE_INFINITY, 'MSET MSETNX'),
  ...shapes('counted', 3, Number.POSITIVE_INFINITY, 'ZUNIONSTORE ZINTERSTORE ZDIFFSTORE'),
]);

/** Commands that only read, and may go ahead of the script. */
const READS: ReadonlyMap<string, Shape> = new Map([
  ...shapes(
    'first',
    1,
    1,
    'GET STRLEN TTL PTTL TYPE HGETALL HKEYS HVALS HLEN LLEN SCARD SMEMBERS ZCARD XLEN',
  ),
  ...shapes('first', 2, 2, 'HGET HEXISTS HSTRLEN SISMEMBER ZSCORE ZRANK ZREVRANK LINDEX GETBIT'),
  ...shapes('first', 3, 3, 'GETRANGE LRANGE ZCOUNT ZLEXCOUNT'),
  ...shapes('first', 2, Number.POSITIVE_INFINITY, 'HMGET SMISMEMBER ZMSCORE LPOS'),
  ...shapes('first', 3, Number.POSITIVE_INFINITY, 'ZRANGE ZREVRANGE ZRANGEBYSCORE ZREVRANGEBYSCORE'),
  ...shapes('first', 3, Number.POSITIVE_INFINITY, 'ZRANGEBYLEX ZREVRANGEBYLEX XRANGE XREVRANGE'),
  ...shapes('all', 1, Number.POSITIVE_INFINITY, 'MGET EXISTS SUNION SINTER SDIFF PFCOUNT'),
]);

export const COMMANDS = { write: WRITES, read: READS } as const;

/**
 * The places of a known command's keys, counted from 0 without the command's name. A text says why the
 * command is refused.
 */
export function keyPlaces(
  kind: keyof typeof COMMANDS,
  name: string,
  args: readonly unknown[],
): readonly number[] | string {
  const shape = COMMANDS[kind].get(name);
  if (shape === undefined) {
    if (kind === 'read') return 'expected a command that reads keys; send others through the client itself';
    if (READS.has(name)) return 'it only reads; await tx.read() instead';
    return 'expected one whose keys are known here; tx.commandOn(keys, ...) takes others';
  }
  const { min, max } = shape;
  if (args.length < min || args.length > max) {
    const most = max === Number.POSITIVE_INFINITY ? 'or more' : max === min ? '' : `to ${max}`;
    return `got ${args.length} arguments, expected ${[min, most].filter(Boolean).join(' ')}`;
  }
  switch (shape.keys) {
    case 'first':
      return [0];
    case 'two':
      return [0, 1];
    case 'all':
      return args.map((_, place) => place);
    case 'pairs':
      if (args.length % 2 === 1) return `got ${args.length} arguments, expected pairs of a key and a value`;
      return args.flatMap((_, place) => (place % 2 === 0 ? [place] : []));
    case 'counted': {
      const count = Number(args[1]);
      const fits = Number.isInteger(count) && count >= 1 && args.length >= 2 + count;
      if (!fits) return `the number of keys is ${String(args[1])}, which does not fit its arguments`;
      return [0, ...Array.from({ length: count }, (_, index) => 2 + index)];
    }
  }
}
