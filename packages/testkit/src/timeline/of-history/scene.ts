import { checkHistory } from '../../history/checker.ts';
import type { Finding } from '../../history/finding.ts';
import type { History, HistoryEvent } from '../../history/history.ts';
import { type PairedOperation, pairOperations } from '../../history/operations.ts';
import type { TimelineArrow, TimelineEvent, TimelineSpan } from '../model.ts';

/** A lane in the making. */
export interface Draft {
  readonly id: string;
  readonly label: string;
  readonly note?: string;
  readonly spans: TimelineSpan[];
  readonly events: TimelineEvent[];
}

/** A history on its way into a picture: what there is to draw, and the lanes that it is drawn on. */
export class Scene {
  readonly history: History;
  readonly operations: readonly PairedOperation[];
  readonly findings: readonly Finding[];
  /** The answers to writes that did harm or came to harm, and what to say of them. */
  readonly harmful: ReadonlyMap<HistoryEvent, string>;
  readonly locks = new Map<string, Draft>();
  /** A process has more than one lane where it holds several locks at once. */
  readonly processes = new Map<string, Draft[]>();
  readonly resources = new Map<string, Draft>();
  readonly arrows: TimelineArrow[] = [];
  /** The lane on which an event stands. */
  readonly places = new Map<HistoryEvent, string>();
  readonly #times: ReadonlyMap<HistoryEvent, number>;

  constructor(history: History) {
    this.history = history;
    this.operations = pairOperations(history);
    this.findings = checkHistory(history);
    this.harmful = new Map(this.findings.flatMap((finding) => harmIn(finding)));
    this.#times = apart(history);
    for (const { process } of history) this.process(process);
  }

  /** When an event stands in the picture. */
  at(event: HistoryEvent): number {
    return this.#times.get(event) ?? event.atMs;
  }

  /** The first lane of a process. */
  process(name: string): Draft {
    const known = this.processes.get(name)?.[0];
    if (known !== undefined) return known;
    const draft: Draft = { id: `process ${name}`, label: name, spans: [], events: [] };
    this.processes.set(name, [draft]);
    return draft;
  }

  lock(name: string, watch: string): Draft {
    return draftOf(this.locks, name, { id: `lock ${name}`, label: name, note: `as ${watch} tells` });
  }

  resource(name: string): Draft {
    return draftOf(this.resources, name, { id: `resource ${name}`, label: name });
  }
}

function draftOf(drafts: Map<string, Draft>, key: string, made: Pick<Draft, 'id' | 'label' | 'note'>): Draft {
  const draft = drafts.get(key) ?? { ...made, spans: [], events: [] };
  drafts.set(key, draft);
  return draft;
}

/** Equal times are one moment in a timeline: what comes later in the history is later in the picture. */
function apart(history: History): Map<HistoryEvent, number> {
  let last = Number.NEGATIVE_INFINITY;
  const inOrder = history.toSorted((a, b) => a.atMs - b.atMs);
  return new Map(
    inOrder.map((event) => {
      last = event.atMs > last ? event.atMs : last + 0.001;
      return [event, last];
    }),
  );
}

/** The event that does the harm: the write that was accepted late, or the one that is lost. */
function harmIn({ kind, events }: Finding): (readonly [HistoryEvent, string])[] {
  const [first, last] = [events[0], events.at(-1)];
  if (kind === 'stale-write' && last) return [[last, 'applied too late:']];
  return kind === 'lost-update' && first ? [[first, 'applied, lost later:']] : [];
}
