// What the guard needs of ioredis and node-redis, and which client it was given: found by its shape, since both
// drivers are optional.
import { invalid } from '../options.ts';
import type { Word } from './effect.ts';

/** A `Redis` of ioredis, as far as it is used here. */
export interface IoRedisClient {
  readonly status: string;
  readonly isCluster?: boolean | undefined;
  readonly options: object;
  call(command: string, args: Word[]): Promise<unknown>;
  connect(): Promise<unknown>;
  on(event: string, listener: () => void): unknown;
  off(event: string, listener: () => void): unknown;
}

/** A client of node-redis (the package `redis`), as far as it is used here. */
export interface NodeRedisClient {
  readonly isOpen: boolean;
  readonly isReady: boolean;
  sendCommand(args: Word[]): Promise<unknown>;
  on(event: string, listener: () => void): unknown;
  off(event: string, listener: () => void): unknown;
}

/** A cluster client of node-redis, as far as it is used here. */
export interface NodeRedisCluster {
  readonly isOpen: boolean;
  readonly slots: readonly unknown[];
  sendCommand(firstKey: string, isReadonly: boolean, args: Word[]): Promise<unknown>;
}

export type RedisClient = IoRedisClient | NodeRedisClient | NodeRedisCluster;

/** One client, whichever it is. */
export interface Link {
  readonly client: object;
  readonly isCluster: boolean;
  /** Whether it can carry commands now, will once it is connected, or cannot any more. */
  state(): 'ready' | 'connecting' | 'closed';
  /** Why it can carry no ordinary command, such as a subscription. */
  refusal(): string | undefined;
  /** Sends in the order of the calls, synchronously. */
  send(key: string | undefined, words: readonly Word[]): Promise<unknown>;
  /** Calls `listener` when the state may have changed. Returns how to stop that. */
  onChange(listener: () => void): () => void;
  /** Whether the client sends again, on its next connection, what it got no reply to; and in its old order. */
  readonly resends: 'never' | 'in order' | 'in any order';
  /** Calls `listener` when a connection is lost and the client may send again what was sent on it. */
  onResend(listener: () => void): () => void;
  /** What was on a lost connection is neither sent again nor answered, so nobody need wait for it. */
  readonly forgets: boolean;
  /** The client puts a prefix before the keys of its commands: inside a script they have to come from KEYS. */
  readonly keyPrefix: boolean;
}

/** @throws GuardError `invalid-option` */
export function linkTo(client: unknown): Link {
  const has = (method: string) => typeof at(client, method) === 'function';
  if (has('call') && has('connect') && typeof at(client, 'status') === 'string') {
    return ioRedisLink(client as IoRedisClient);
  }
  if (at(client, 'isPipeline') === true || (has('exec') && at(client, 'isOpen') === undefined)) {
    throw invalid('client', client, 'expected the client itself, not its MULTI or pipeline');
  }
  // Commands of a pool or behind a sentinel may each take another connection.
  const isOne = typeof at(client, 'isOpen') === 'boolean' && !has('execute') && !has('getMasterNode');
  if (has('sendCommand') && isOne && !has('acquire')) {
    if (Array.isArray(at(client, 'slots'))) return nodeRedisClusterLink(client as NodeRedisCluster);
    if (typeof at(client, 'isReady') === 'boolean') return nodeRedisLink(client as NodeRedisClient);
  }
  throw invalid('client', client, 'expected a client or a cluster of ioredis or of node-redis');
}

function at(value: unknown, name: string): unknown {
  const isObject = (typeof value === 'object' && value !== null) || typeof value === 'function';
  return isObject ? (value as Record<string, unknown>)[name] : undefined;
}

/**
 * However many wait, the client carries one listener of ours for each event, since Node warns of a leak from the
 * eleventh on; with the last of them the listener goes.
 */
function fan(client: Pick<IoRedisClient, 'on' | 'off'>, events: readonly string[]): Link['onResend'] {
  const waiting = new Set<() => void>();
  const tellAll = () => {
    for (const tell of [...waiting]) tell();
  };
  return (listener) => {
    // An entry of its own, although `listener` may be waiting twice.
    const entry = () => listener();
    if (waiting.size === 0) for (const event of events) client.on(event, tellAll);
    waiting.add(entry);
    return () => {
      if (!waiting.delete(entry) || waiting.size > 0) return;
      for (const event of events) client.off(event, tellAll);
    };
  };
}

function ioRedisLink(client: IoRedisClient): Link {
  const isCluster = client.isCluster === true;
  const option = (name: string) => at(client.options, name);
  if (isCluster && ![undefined, 'master'].includes(option('scaleReads') as string | undefined)) {
    throw invalid(
      'scaleReads of the client',
      option('scaleReads'),
      'expected "master": replicas read old data',
    );
  }
  const prefix = option('keyPrefix');
  if (typeof prefix === 'string' && /[{}]/.test(prefix)) {
    throw invalid('keyPrefix of the client', prefix, 'expected no braces, which would move the hash tag');
  }
  const forgets = !isCluster && option('autoResendUnfulfilledCommands') === false;
  return {
    client,
    isCluster,
    resends: forgets ? 'never' : isCluster ? 'in any order' : 'in order',
    state() {
      const { status } = client;
      if (status === 'end') return 'closed';
      if (status === 'ready') return 'ready';
      if (status === 'wait') client.connect().catch(() => undefined);
      return 'connecting';
    },
    refusal: () => {
      const mode = at(client, 'mode');
      return mode === 'subscriber' || mode === 'monitor' ? `is in ${mode} mode` : undefined;
    },
    send: (_key, [name, ...args]) => client.call(name as string, args),
    onChange: fan(client, ['ready', 'end']),
    onResend: fan(client, isCluster ? ['-node', 'close'] : ['close']),
    forgets,
    keyPrefix: typeof prefix === 'string' && prefix !== '',
  };
}

/** node-redis never sends again what it has sent: it rejects it when the connection is lost. */
function nodeRedisLink(client: NodeRedisClient): Link {
  return {
    client,
    isCluster: false,
    state: () => (client.isReady ? 'ready' : client.isOpen ? 'connecting' : 'closed'),
    refusal: () =>
      at(client, 'isPubSubActive') === true && at(at(client, 'options'), 'RESP') !== 3
        ? 'is in subscriber mode'
        : undefined,
    send: (_key, words) => client.sendCommand(words.slice()),
    onChange: fan(client, ['ready', 'end']),
    onResend: () => () => undefined,
    forgets: false,
    keyPrefix: false,
    resends: 'never',
  };
}

function nodeRedisClusterLink(client: NodeRedisCluster): Link {
  return {
    client,
    isCluster: true,
    state: () => (client.isOpen ? 'ready' : 'closed'),
    refusal: () => undefined,
    send: (key, words) => client.sendCommand(key ?? '', false, words.slice()),
    onChange: () => () => undefined,
    onResend: () => () => undefined,
    forgets: false,
    keyPrefix: false,
    resends: 'never',
  };
}
