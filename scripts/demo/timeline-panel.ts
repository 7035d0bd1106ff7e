// One run as a panel of the timeline: lanes for the coordinator's lease, A, its network if that stalled, B and
// the storage. Everything in it comes from the record.
import type {
  TimelineArrow,
  TimelineEvent,
  TimelineLane,
  TimelinePanel,
  TimelineSpan,
} from '@lockkeeper/testkit';
import { OPENING } from './account.ts';
import type { PlayedRun } from './acts.ts';
import { revisionOf, type StoryEvent, type WorkerName } from './story.ts';
import { isExpiry, isLate, seconds } from './telling.ts';
import type { World } from './world.ts';

type Kind = StoryEvent['kind'];
type Of<K extends Kind> = StoryEvent & { readonly kind: K };

export function panelOf(run: PlayedRun, world: World): TimelinePanel {
  return new Panel(run, world).draw();
}

/** A virtual clock stands still while things happen: what comes later in the record is later in the picture. */
function apart(events: readonly StoryEvent[]): readonly StoryEvent[] {
  let last = Number.NEGATIVE_INFINITY;
  return events.map((event) => {
    last = Math.max(event.atMs, last + 0.001);
    return { ...event, atMs: last };
  });
}

class Panel {
  readonly #run: PlayedRun;
  readonly #world: World;
  readonly #events: readonly StoryEvent[];

  constructor(run: PlayedRun, world: World) {
    this.#run = run;
    this.#world = world;
    this.#events = apart(run.events);
  }

  draw(): TimelinePanel {
    const removed = this.#all('removed')[0];
    return {
      title: this.#run.guarded ? 'With the guard' : 'Without a guard',
      verdict: this.#verdict(),
      originMs: 0,
      lanes: [this.#leases(), this.#worker('A'), ...this.#network(), this.#worker('B'), this.#storage()],
      arrows: this.#writes(),
      guides: removed === undefined ? [] : [{ atMs: removed.atMs, label: 'hand-over' }],
    };
  }

  #verdict(): NonNullable<TimelinePanel['verdict']> {
    const { lostUpdates, foundBalance, expectedBalance, rejected } = this.#run;
    const balance = `The balance is ${foundBalance}`;
    if (lostUpdates > 0 || foundBalance !== expectedBalance) {
      return { good: false, text: `${balance}, should be ${expectedBalance}: an acknowledged entry is lost` };
    }
    const why = rejected > 0 ? ': the late write was refused, and A started over' : '';
    return { good: true, text: `${balance}, as it should be${why}` };
  }

  #all<K extends Kind>(kind: K): readonly Of<K>[] {
    return this.#events.filter((event): event is Of<K> => event.kind === kind);
  }

  /** The first event of these kinds after `event` that concerns the same token, where `same` tells which that is. */
  #after<K extends Kind>(event: StoryEvent, kinds: readonly K[], same: (one: Of<K>) => boolean = () => true) {
    const isIt = (one: StoryEvent): one is Of<K> => (kinds as readonly Kind[]).includes(one.kind);
    return this.#before(event, true).filter(isIt).find(same);
  }

  #before(event: StoryEvent, after = false): readonly StoryEvent[] {
    const index = this.#events.indexOf(event);
    return after ? this.#events.slice(index + 1) : this.#events.slice(0, index);
  }

  #worker(who: WorkerName): TimelineLane {
    const mine = this.#events.filter((event) => event.who === who);
    return {
      id: who,
      label: `Worker ${who}`,
      spans: [...this.#waits(who), ...this.#holds(who), ...this.#pauses(who)],
      events: mine.flatMap((event) => this.#deed(event)),
    };
  }

  #deed(event: StoryEvent): TimelineEvent[] {
    const at = (kind: TimelineEvent['kind'], label: string, token?: string): TimelineEvent[] => [
      { kind, atMs: event.atMs, label, token },
    ];
    switch (event.kind) {
      case 'acquired':
        return at('acquired', `acquires token ${revisionOf(event.token)}`, event.token);
      case 'read':
        return at('read', `reads ${event.balance}`);
      case 'checked':
        // It matters where it is followed by a stop. Elsewhere it would only fill the picture.
        return event.who === 'A' && this.#all('checked').indexOf(event) === 0
          ? at('checked', 'checks: still holds')
          : [];
      case 'woken':
        return at('woken', 'is woken');
      case 'sent':
        return at('write-sent', `writes ${event.balance}`);
      case 'lost':
        return at('aborted', 'signal: lock lost');
      case 'failed':
        return at('failed', `fails: ${event.code}`);
      default:
        return [];
    }
  }

  #waits(who: WorkerName): TimelineSpan[] {
    return this.#all('enqueued')
      .filter(({ of, behind }) => of === who && behind !== undefined)
      .map((event) => ({
        kind: 'wait',
        fromMs: event.atMs,
        toMs: this.#after(event, ['acquired'], (one) => revisionOf(one.token) === event.revision)?.atMs,
        label: 'waits in the queue',
      }));
  }

  /** From the grant until it is known to be over: what the worker believes. */
  #holds(who: WorkerName): TimelineSpan[] {
    return this.#all('acquired')
      .filter((event) => event.who === who)
      .map((event) => {
        const { token } = event;
        const lost = this.#after(event, ['lost'], (one) => one.token === token);
        const done = this.#after(event, ['applied'], (one) => one.token === token);
        return { kind: 'hold', fromMs: event.atMs, toMs: (lost ?? done)?.atMs, token };
      });
  }

  #pauses(who: WorkerName): TimelineSpan[] {
    return this.#all('stopped')
      .filter((event) => event.who === who)
      .map((event) => this.#hindrance('paused', 'stopped', event, this.#after(event, ['woken'])));
  }

  #network(): TimelineLane[] {
    const stalls = this.#all('stalled');
    if (stalls.length === 0) return [];
    const spans = stalls.map((event) =>
      this.#hindrance('held-back', 'stalled', event, this.#after(event, ['restored'])),
    );
    return [{ id: 'network', label: 'Network', note: 'of A', spans }];
  }

  #hindrance(
    kind: 'paused' | 'held-back',
    what: string,
    from: StoryEvent,
    to: StoryEvent | undefined,
  ): TimelineSpan {
    const lasted = to === undefined ? '' : ` for ${seconds(to.atMs - from.atMs, 1)} s`;
    const under = kind === 'paused' ? '' : ', with A’s write and renewals in it';
    return { kind, fromMs: from.atMs, toMs: to?.atMs, label: `${what}${lasted}${under}` };
  }

  /** Who has the lock, as the watch reported it. */
  #leases(): TimelineLane {
    const { names, ttlMs } = this.#world;
    const spans = this.#all('enqueued').map((event): TimelineSpan => {
      const { of, revision, behind } = event;
      const free = behind === undefined ? event : this.#after(event, ['removed']);
      const end = this.#after(event, ['removed'], (one) => one.revision === revision);
      const token = this.#all('acquired').find((one) => revisionOf(one.token) === revision)?.token;
      return {
        kind: 'lease',
        fromMs: (free ?? event).atMs,
        toMs: end?.atMs,
        token,
        label: `${of}: token ${revision}`,
      };
    });
    const events = this.#all('removed')
      .filter((event) => isExpiry(event, this.#before(event)))
      .map(
        ({ of, atMs }): TimelineEvent => ({ kind: 'lease-expired', atMs, label: `${of}’s lease runs out` }),
      );
    return {
      id: 'lease',
      label: this.#world.simulated ? 'Lease' : `${names.coordinator}’s lease`,
      note: `TTL ${ttlMs / 1_000} s`,
      spans,
      events,
    };
  }

  #storage(): TimelineLane {
    const { guarded } = this.#run;
    const answers = this.#events.filter((event) => event.kind === 'applied' || event.kind === 'refused');
    return {
      id: 'storage',
      label: this.#world.simulated ? 'Storage' : this.#world.names.storage,
      note: guarded ? 'behind its guard' : 'no guard',
      spans: [...this.#contents(), ...this.#promises()],
      events: answers.map((event): TimelineEvent => {
        const { atMs, token } = event;
        if (event.kind === 'refused')
          return { kind: 'write-refused', atMs, label: `late write refused: ${event.code}` };
        return isLate(event, this.#before(event))
          ? { kind: 'lost-update', atMs, label: 'late write applied' }
          : { kind: 'write-applied', atMs, label: 'applied', token };
      }),
    };
  }

  #contents(): TimelineSpan[] {
    const applied = this.#all('applied');
    const first = this.#events[0]?.atMs ?? 0;
    return [undefined, ...applied].map((event, index): TimelineSpan => {
      const late = event !== undefined && isLate(event, this.#before(event));
      return {
        kind: late ? 'wrong-state' : 'state',
        fromMs: event?.atMs ?? first,
        toMs: applied[index]?.atMs,
        label: event === undefined ? `balance ${OPENING.balance}` : `${event.balance}`,
      };
    });
  }

  /** Which tokens the guard still accepts. */
  #promises(): TimelineSpan[] {
    const claims = this.#all('acquired').filter(({ claimed }) => claimed);
    return claims.map(({ atMs, token }, index) => ({
      kind: 'claim',
      fromMs: atMs,
      toMs: claims[index + 1]?.atMs,
      token,
      label: `${index === 0 ? 'the guard accepts tokens ' : ''}≥ ${revisionOf(token)}`,
    }));
  }

  /** From the worker that sent it to the storage that answered; by way of the network where it was held. */
  #writes(): TimelineArrow[] {
    return this.#all('sent').flatMap((event): TimelineArrow[] => {
      const answer = this.#after(event, ['applied', 'refused'], ({ token }) => token === event.token);
      if (answer === undefined) return [];
      const from = { lane: event.who, atMs: event.atMs };
      const to = { lane: 'storage', atMs: answer.atMs };
      const kind = this.#outcome(answer);
      const held = this.#after(event, ['held']);
      const restored = held && held.atMs < answer.atMs ? this.#after(held, ['restored']) : undefined;
      if (held === undefined || restored === undefined) return [{ from, to, kind }];
      return [
        { from, to: { lane: 'network', atMs: held.atMs }, kind },
        { from: { lane: 'network', atMs: restored.atMs }, to, kind },
      ];
    });
  }

  #outcome(answer: Of<'applied' | 'refused'>): TimelineArrow['kind'] {
    if (answer.kind === 'refused') return 'refused';
    return isLate(answer as Of<'applied'>, this.#before(answer)) ? 'harmful' : 'plain';
  }
}
