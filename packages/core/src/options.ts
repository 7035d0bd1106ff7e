import { hostname } from 'node:os';
import type { Clock } from './clock.ts';
import { type Coordinator, DEFAULT_CALL_TIMEOUT_MS } from './coordinator/coordinator.ts';
import { type EtcdOptions, etcdCoordinator } from './coordinator/etcd/etcd-coordinator.ts';
import { checkMethods, checkObject, duration, invalidOption, optionalDuration } from './validation.ts';

/**
 * What the SDK logs to: the shape of a pino logger, fields first. Trouble and its cause are `warn`, what only
 * matters to whoever looks closely is `debug`, `error` is for what an operator must act on. The `err` of the
 * fields is an Error.
 */
export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

interface CommonOptions {
  /** The first segment of every key; nothing is written outside. 1 to 1,024 bytes. Default `lockkeeper`. */
  readonly namespace?: string | undefined;
  /**
   * How long a silent holder keeps its locks, in milliseconds, 1,000 to 9 × 10^12. etcd counts whole
   * seconds and has a floor (2 s with its default election timeout): the time-to-live it grants counts.
   * Default 15,000.
   */
  readonly ttlMs?: number | undefined;
  /**
   * How long before the end of the lease a hold without a confirmed renewal is given up, in milliseconds;
   * less than half of `ttlMs`. Default: the larger of 500 and a tenth of the granted time-to-live.
   */
  readonly marginMs?: number | undefined;
  /** Who we are, for people who inspect a lock. Never decides ownership. Default: host name and pid. */
  readonly identity?: string | undefined;
  /** Default: silent. */
  readonly logger?: Logger | undefined;
  /**
   * Whether what this keeper writes at the same time goes to etcd as one transaction: many times the throughput, and no
   * later for one alone. A reply that is lost is then lost to all in it, each of which finds out for itself, as always;
   * a refusal of one is no other's. Without it each is a transaction of its own. Default `true`.
   */
  readonly groupCommit?: boolean | undefined;
}

/** Where to find etcd, or a ready coordinator (which the keeper then closes with itself). */
export type ConnectOptions = CommonOptions &
  ((EtcdOptions & { readonly coordinator?: undefined }) | { readonly coordinator: Coordinator });

/** The options with every default filled in and every value checked. */
export interface ResolvedOptions {
  readonly coordinator: Coordinator;
  readonly clock: Clock;
  readonly namespace: string;
  readonly ttlMs: number;
  readonly marginMs: number | undefined;
  readonly identity: string;
  readonly logger: Logger;
  readonly groupCommit: boolean;
  readonly callTimeoutMs: number;
}

const silence = (): void => {};
const silentLogger: Logger = { debug: silence, info: silence, warn: silence, error: silence };

export function resolveOptions(options: ConnectOptions): ResolvedOptions {
  checkObject('options', options);
  const marginMs = optionalDuration('marginMs', options.marginMs, { min: 0, max: 9e12 });
  const ttlMs = checkTtl(options.ttlMs ?? 15_000, marginMs);
  const namespace = options.namespace ?? 'lockkeeper';
  const identity = options.identity ?? `${hostname()}:${process.pid}`;
  if (typeof identity !== 'string') throw invalidOption('identity', identity, 'expected a string');
  const { groupCommit = true } = options;
  if (typeof groupCommit !== 'boolean') throw invalidOption('groupCommit', groupCommit, 'expected a boolean');
  const coordinator =
    options.coordinator === undefined
      ? etcdCoordinator(options as EtcdOptions)
      : checkCoordinator(options.coordinator);
  return {
    coordinator,
    clock: coordinator.clock,
    namespace,
    ttlMs,
    marginMs,
    identity,
    logger: options.logger === undefined ? silentLogger : harmless(options.logger),
    groupCommit,
    // What the coordinator of these options does; of a given one, what the port says.
    callTimeoutMs: ('callTimeoutMs' in options && options.callTimeoutMs) || DEFAULT_CALL_TIMEOUT_MS,
  };
}

/** A time-to-live, long enough for the margin. @throws LockkeeperError `invalid-option` */
export function checkTtl(value: unknown, marginMs: number | undefined): number {
  const ttlMs = duration('ttlMs', value, { min: 1_000, max: 9e12 });
  if (marginMs !== undefined && marginMs >= ttlMs / 2) {
    throw invalidOption('marginMs', marginMs, `expected less than half of ttlMs ${ttlMs}`);
  }
  return ttlMs;
}

/**
 * Calls the logger so that it cannot hurt: an exception that it throws in the middle of a loss must neither
 * hide the loss nor end the process. It shows as a process warning instead.
 */
function harmless(logger: Logger): Logger {
  checkMethods('logger', logger, ['debug', 'info', 'warn', 'error']);
  const at =
    (level: keyof Logger) =>
    (fields: object, message: string): void => {
      try {
        logger[level](fields, message);
      } catch (error) {
        process.emitWarning(`the logger threw at "${message}": ${String(error)}`, 'LockkeeperWarning');
      }
    };
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}

/** Everything of a coordinator that is called. */
const COORDINATOR = [
  'describe',
  'endpoints',
  'grant',
  'renew',
  'timeToLive',
  'revoke',
  'txn',
  'range',
  'watch',
  'close',
];
const CLOCK = ['now', 'wallTime', 'setTimer'];

function checkCoordinator(coordinator: Coordinator): Coordinator {
  checkMethods('coordinator', coordinator, COORDINATOR);
  checkMethods('coordinator.clock', coordinator.clock, CLOCK);
  return coordinator;
}
