/** A stretch of time on a lane. */
export interface TimelineSpan {
  /**
   * - `hold`: a client holds the lock, or believes so;
   * - `wait`: it stands in the queue;
   * - `lease`: the coordination service has given the lock to somebody, whose lease lives;
   * - `claim`: a guard accepts nothing older, drawn as a strip in front of what it guards;
   * - `state`, `wrong-state`: what a storage contains, and what it contains once an update is lost;
   * - `paused`: the process is stopped, drawn hatched over what else is there;
   * - `held-back`: what was sent does not arrive, drawn hatched;
   * - `fault`: something else is at fault, such as a disk that is full;
   * - `unknown`: an operation whose outcome nobody learned, drawn hatched.
   */
  readonly kind:
    | 'hold'
    | 'wait'
    | 'lease'
    | 'claim'
    | 'state'
    | 'wrong-state'
    | 'paused'
    | 'held-back'
    | 'fault'
    | 'unknown';
  readonly fromMs: number;
  /** Default: the end of the panel. */
  readonly toMs?: number | undefined;
  readonly label?: string | undefined;
  /** Spans and events of one token share a colour. */
  readonly token?: string | undefined;
  /** What else the page tells of it, by name. */
  readonly details?: Readonly<Record<string, string>> | undefined;
}

/** A moment on a lane. */
export interface TimelineEvent {
  readonly kind:
    | 'acquired'
    | 'released'
    | 'claimed'
    | 'checked'
    | 'read'
    | 'write-sent'
    | 'write-applied'
    | 'write-refused'
    | 'lost-update'
    | 'lease-expired'
    | 'woken'
    | 'aborted'
    | 'failed'
    | 'unknown';
  readonly atMs: number;
  readonly label: string;
  readonly token?: string | undefined;
  /** What else the page tells of it, by name. */
  readonly details?: Readonly<Record<string, string>> | undefined;
}

/** One row of the picture: a process, a lease, a database. */
export interface TimelineLane {
  /** What arrows refer to; unique in its panel. */
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
  /** What came of it: `harmful` was applied and should not have been. Default `plain`. */
  readonly kind?: 'plain' | 'refused' | 'harmful' | undefined;
}

/** A moment that divides the story: a line through all lanes. */
export interface TimelineGuide {
  readonly atMs: number;
  readonly label: string;
}

/** A sentence about the panel, and where it shows. The page lists them; the SVG does not. */
export interface TimelineNote {
  readonly severity: 'violation' | 'observation';
  readonly text: string;
  readonly at?: { readonly lane: string; readonly atMs: number } | undefined;
}

/** One run of the story, with an axis of its own. */
export interface TimelinePanel {
  readonly title: string;
  /** What came of it, drawn in red or green beside the title. */
  readonly verdict?: { readonly good: boolean; readonly text: string } | undefined;
  /** The moment that the axis calls 0 s. Default: the earliest in the panel. */
  readonly originMs?: number | undefined;
  readonly lanes: readonly TimelineLane[];
  readonly arrows?: readonly TimelineArrow[] | undefined;
  readonly guides?: readonly TimelineGuide[] | undefined;
  readonly notes?: readonly TimelineNote[] | undefined;
}

/** Panels to be compared, under one heading. */
export interface TimelineAct {
  readonly title: string;
  readonly panels: readonly TimelinePanel[];
}

/**
 * What to draw. Times are milliseconds on one clock, whatever its origin; pure data, fit for JSON. Equal times
 * are one moment and stand in one place; any difference, however small, sets them apart.
 */
export interface Timeline {
  readonly title: string;
  readonly subtitle?: string | undefined;
  readonly acts: readonly TimelineAct[];
}
