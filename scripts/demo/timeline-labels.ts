// What stands at an event of the picture, and how it looks. `events` are all those of its run.
import type { StoryEvent } from './story.ts';
import { isExpiry, isLate } from './telling.ts';

export type AnswerStyle = 'on-time' | 'late' | 'refused';

/** How the storage answered a write. */
export function answerStyle(answer: StoryEvent, events: readonly StoryEvent[]): AnswerStyle {
  if (answer.kind === 'refused') return 'refused';
  return answer.kind === 'applied' && isLate(answer, before(answer, events)) ? 'late' : 'on-time';
}

export function markStyle(event: StoryEvent, events: readonly StoryEvent[]): 'label' | 'good' | 'bad' {
  if (event.kind === 'failed') return 'bad';
  if (event.who !== 'storage') return 'label';
  return ({ refused: 'good', late: 'bad', 'on-time': 'label' } as const)[answerStyle(event, events)];
}

/** Nothing where a bar or an arrow says it already. */
export function labelOf(event: StoryEvent, events: readonly StoryEvent[]): string | undefined {
  switch (event.kind) {
    case 'acquired':
      return 'acquires';
    case 'read':
      return `reads ${event.balance}`;
    case 'checked':
      return 'holds? yes';
    case 'stopped':
      return 'stopped';
    case 'woken':
      return 'woken';
    case 'sent':
      return `writes ${event.balance}`;
    case 'lost':
      return 'told: lost';
    case 'failed':
      return `fails: ${event.code}`;
    case 'enqueued':
      return event.behind === undefined ? `grants ${event.of}` : `queues ${event.of}`;
    case 'removed':
      return isExpiry(event, before(event, events)) ? 'lease expired' : 'released';
    case 'applied':
      return answerStyle(event, events) === 'late' ? 'late write applied' : 'applied';
    case 'refused':
      return `refused: ${event.code}`;
    case 'stalled':
    case 'restored':
    case 'held':
      return undefined;
  }
}

function before(event: StoryEvent, events: readonly StoryEvent[]): readonly StoryEvent[] {
  return events.slice(0, events.indexOf(event));
}
