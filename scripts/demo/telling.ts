// The story in words: a line for each fact.
import { revisionOf, type StoryEvent } from './story.ts';
import type { Names } from './world.ts';

/** How a line stands out. */
export type Tone = 'plain' | 'hindered' | 'harm' | 'refused';

export interface Line {
  readonly who: string;
  readonly what: string;
  readonly tone: Tone;
}

export interface Circumstances {
  readonly names: Names;
  readonly simulated: boolean;
  /** The events before this one. */
  readonly before: readonly StoryEvent[];
}

export function tell(event: StoryEvent, circumstances: Circumstances): Line {
  const { names, before } = circumstances;
  const who = event.who === 'coordinator' || event.who === 'storage' ? names[event.who] : event.who;
  return { who, what: sentence(event, circumstances), tone: toneOf(event, before) };
}

function sentence(event: StoryEvent, circumstances: Circumstances): string {
  const { simulated, before } = circumstances;
  switch (event.kind) {
    case 'acquired': {
      const token = `acquires the lock with token ${revisionOf(event.token)}`;
      return event.claimed ? `${token}; ${theStorage(circumstances)} will refuse older ones` : token;
    }
    case 'read':
      return `reads the balance: ${event.balance}`;
    case 'checked':
      return `checks that it still holds the lock: yes, ${seconds(event.remainingMs, 1)} s are left`;
    case 'stopped':
      return `is stopped before its write (${simulated ? 'simulated: nothing of it runs' : 'SIGSTOP'})`;
    case 'woken':
      return `is woken (${simulated ? 'simulated' : 'SIGCONT'}) and goes on where it was: at its write`;
    case 'sent':
      return `sends its write: balance ${event.balance}`;
    case 'lost':
      return `is told by its signal that the lock is lost (${reasonOf(event.reason)})`;
    case 'failed':
      return `fails: ${event.message}`;
    case 'enqueued':
      return event.behind === undefined
        ? `grants ${event.of} the lock, revision ${event.revision}`
        : `queues ${event.of} behind ${event.behind}, revision ${event.revision}`;
    case 'removed':
      return isExpiry(event, before)
        ? `${event.of}'s lease has run out: its key is removed`
        : `${event.of}'s key is removed: the lock is free again`;
    case 'applied':
      return isLate(event, before)
        ? `applies ${event.of}'s late write: balance ${event.balance}; what was written meanwhile is gone`
        : `applies ${event.of}'s write: balance ${event.balance}`;
    case 'refused': {
      const inForce = event.inForce === undefined ? '' : `, ${revisionOf(event.inForce)} is in force`;
      return `refuses ${event.of}'s late write: ${event.code}, token ${revisionOf(event.token)}${inForce}`;
    }
    case 'stalled':
      return "stalls: nothing of A's gets through, renewals included";
    case 'held':
      return "has A's write on its way, not yet arrived";
    case 'restored':
      return "is back: A's write arrives";
  }
}

/** In a sentence. */
export function theStorage({ names, simulated }: Pick<Circumstances, 'names' | 'simulated'>): string {
  return simulated ? `the ${names.storage}` : names.storage;
}

function reasonOf(code: string): string {
  return code === 'unconfirmed' ? `${code}: not renewed in time` : code;
}

function toneOf(event: StoryEvent, before: readonly StoryEvent[]): Tone {
  switch (event.kind) {
    case 'stopped':
    case 'woken':
    case 'stalled':
    case 'held':
    case 'restored':
    case 'lost':
      return 'hindered';
    case 'refused':
      return 'refused';
    case 'failed':
      return 'harm';
    case 'applied':
      return isLate(event, before) ? 'harm' : 'plain';
    default:
      return 'plain';
  }
}

/** Whether somebody's newer grant had been used before this write was answered. */
export function isLate(
  write: StoryEvent & { readonly kind: 'applied' },
  before: readonly StoryEvent[],
): boolean {
  const revision = BigInt(revisionOf(write.token));
  return before.some((one) => one.kind === 'applied' && BigInt(revisionOf(one.token)) > revision);
}

/** Whether the key went before its holder's write had been answered: its holder, then, did not release it. */
export function isExpiry(
  removal: StoryEvent & { readonly kind: 'removed' },
  before: readonly StoryEvent[],
): boolean {
  return !before.some(
    (one) => (one.kind === 'applied' || one.kind === 'refused') && revisionOf(one.token) === removal.revision,
  );
}

export function seconds(ms: number, digits: number): string {
  return (ms / 1_000).toFixed(digits);
}
