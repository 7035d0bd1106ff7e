/** A stretch of time on a lane. */
export interface TimelineSpan {
  /**
   * - `hold`: a client holds the lock (or believes so);
   * - `wait`: it stands in the queue;
   * - `lease`: the coordination service keeps the lease alive;
   * - `claim`: a guard accepts nothing older;
   * - `paused`: the process is stopped, drawn hatched over what else is there;
   * - `held-back`: a message is on its way, drawn hatched.
   */
  readonly kind: 'hold' | 'wait' | 'lease' | 'claim' | 'paused' | 'held-back';
  readonly fromMs: number;
  readonly toMs: number;
  readonly label?: string | undefined;
  /** Spans and events of one token share a colour. */
  readonly token?: string | undefined;
}

/** A moment on a lane. */
export interface TimelineEvent {
  readonly kind:
    | 'acquired'
    | 'released'
    | 'checked'
    | 'read'
    | 'write-sent'
    | 'write-applied'
    | 'write-refused'
    | 'lost-update'
    | 'lease-expired'
    | 'woken'
    | 'aborted';
  readonly atMs: number;
  readonly label: string;
  readonly token?: string | undefined;
}

/** One row of the picture: a process, a lease, a database. */
export interface TimelineLane {
  /** What arrows refer to; unique in its act. */
  readonly id: string;
  readonly label: string;
  /** A second, quieter line under the label. */
  readonly note?: string | undefined;
  readonly spans?: readonly TimelineSpan[] | undefined;
  readonly events?: readonly TimelineEvent[] | undefined;
}

/** Something that travels from one lane to another, such as a write. */
export interface TimelineArrow {
  readonly from: { readonly lane: string; readonly atMs: number };
  readonly to: { readonly lane: string; readonly atMs: number };
  /** Default `plain`. */
  readonly kind?: 'plain' | 'applied' | 'refused' | undefined;
}

/** One panel with an axis of its own. */
export interface TimelineAct {
  readonly title: string;
  /** What came of it; drawn in red or green under the title. */
  readonly verdict?: { readonly good: boolean; readonly text: string } | undefined;
  /** The moment that the axis calls 0 s. Default: the earliest in the act. */
  readonly originMs?: number | undefined;
  readonly lanes: readonly TimelineLane[];
  readonly arrows?: readonly TimelineArrow[] | undefined;
}

/** What to draw. Times are milliseconds on one clock, whatever its origin; pure data, fit for JSON. */
export interface Timeline {
  readonly title: string;
  readonly subtitle?: string | undefined;
  readonly acts: readonly TimelineAct[];
}
