import { FencingToken, GuardError } from '@lockkeeper/fencing';
import { PermitToken, parseWaiterText } from '../semaphore/permit-token.ts';
import { AbortScope } from '../signals.ts';
import { checkMethods, checkObject, duration, invalidOption, optionalSignal } from '../validation.ts';
import { type BreakAnswer, Breaking, type BreakTarget } from './breaking.ts';
import { findContender } from './find-contender.ts';
import { findPermit, findPermitWaiter, type SlotGuards } from './find-permit.ts';
import type { OperatorHost } from './inspection.ts';
import { checkKind, type QueueKind, queueOf, titleOfKind } from './lock-kind.ts';
import type { Sealable } from './seal-guards.ts';

interface BreakLimits {
  /** How long the guards may take to seal, in milliseconds. Default 5,000. */
  readonly sealTimeoutMs?: number | undefined;
  /** Deletes the key although a guard could not be sealed, and tells which in `unsealed`. Default `false`. */
  readonly force?: boolean | undefined;
  /** How long etcd may take before the seal, and again after it, in milliseconds. Default 10,000. */
  readonly timeoutMs?: number | undefined;
  /** Stops it, with the signal's reason; what was sent may still take effect. */
  readonly signal?: AbortSignal | undefined;
}

export interface BreakLockOptions extends BreakLimits {
  /** Default `lock`. */
  readonly kind?: QueueKind | undefined;
  /** Of the holder or of a waiter, as `inspect` tells it: the token, or its text. */
  readonly token: FencingToken | string;
  /**
   * Everything that the holder writes to. They are sealed for exactly this token before its key is deleted, so that no
   * write of it that comes late is applied. With none (`[]`) such a write is applied, until the next holder has claimed.
   *
   * Of a reader only the newest is bound by its seal: a late write of an older one is applied until the next writer
   * has claimed, as readers do not fence each other.
   */
  readonly guards: readonly Sealable[];
}

export interface BreakPermitOptions extends BreakLimits {
  readonly kind: 'semaphore';
  /** Of the permit or of a waiter, as `inspect` tells it: the token, or its text. */
  readonly token: PermitToken | string;
  /** As for a lock, of the slot that the permit is of: the guards that `claims` names for it. With none, `() => []`. */
  readonly guards: SlotGuards;
}

export type BreakOptions = BreakLockOptions | BreakPermitOptions;

/** Takes the lock, the permit, or the place in its queue, from exactly the contender that `token` names. */
export async function breakLock(
  host: OperatorHost,
  name: string,
  options: BreakOptions,
): Promise<BreakAnswer> {
  checkObject('options', options);
  const kind = checkKind('kind', options.kind ?? 'lock');
  const { force = false } = options;
  if (typeof force !== 'boolean') throw invalidOption('force', force, 'expected a boolean');
  const sealing = { timeoutMs: duration('sealTimeoutMs', options.sealTimeoutMs ?? 5_000, { min: 0 }), force };
  const target =
    kind === 'semaphore' ? permitTarget(host, name, options) : lockTarget(host, kind, name, options);
  const timeoutMs = duration('timeoutMs', options.timeoutMs ?? 10_000, { min: 0 });
  using scope = new AbortScope().follow(host.closing).follow(optionalSignal('signal', options.signal));
  return await new Breaking(host, target, sealing, timeoutMs, scope.signal).run();
}

function lockTarget(
  { layout }: OperatorHost,
  kind: QueueKind,
  name: string,
  options: BreakOptions,
): BreakTarget {
  const queue = queueOf(layout, kind, name);
  const guards = checkGuards('guards', options.guards);
  const token = checkToken(options.token);
  return {
    title: titleOfKind(kind, name),
    token: `${token}`,
    find: (coordinator, call) => findContender(coordinator, queue, layout.lineage, token, guards, call),
  };
}

function permitTarget({ layout }: OperatorHost, name: string, options: BreakOptions): BreakTarget {
  const { guards } = options;
  if (typeof guards !== 'function')
    throw invalidOption('guards', guards, 'expected a function from a slot to its guards');
  const places = {
    keys: layout.semaphore(name),
    lineageKey: layout.lineage,
    guardsOf: (slot: number) => checkGuards(`guards(${slot})`, guards(slot)),
  };
  const token = checkPermitToken(options.token);
  return {
    title: titleOfKind('semaphore', name),
    token: String(options.token),
    find: (coordinator, call) =>
      token instanceof PermitToken
        ? findPermit(coordinator, places, token, call)
        : findPermitWaiter(coordinator, places, token, call),
  };
}

function checkGuards(field: string, guards: unknown): readonly Sealable[] {
  if (!Array.isArray(guards))
    throw invalidOption(field, guards, 'expected an array of guards, or [] for none');
  for (const [index, guard] of guards.entries()) checkMethods(`${field}[${index}]`, guard, ['seal']);
  return [...guards];
}

/** A token of another installed copy is checked part by part. */
function checkToken(token: unknown): FencingToken {
  if (typeof token !== 'string' && (typeof token !== 'object' || token === null))
    throw invalidOption('token', token, 'expected a FencingToken or its text');
  return checked(token, () =>
    typeof token === 'string' ? FencingToken.parse(token) : new FencingToken(token as FencingToken),
  );
}

/** A token of another installed copy is read by its text. */
function checkPermitToken(token: unknown): PermitToken | FencingToken {
  if (typeof token !== 'string' && (typeof token !== 'object' || token === null))
    throw invalidOption('token', token, "expected a PermitToken or its text, or a waiter's");
  return checked(token, () => parseWaiterText(String(token)) ?? PermitToken.parse(String(token)));
}

function checked<T>(token: unknown, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    if (error instanceof GuardError) throw invalidOption('token', token, error.message);
    throw error;
  }
}
