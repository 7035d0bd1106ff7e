import { TestkitError } from '../errors.ts';
import type { History, HistoryEvent } from './history.ts';

/** One event a line, as JSON: fit for `grep`, and for appending while a test runs. */
export function historyToJsonLines(history: History): string {
  return history.map((event) => `${JSON.stringify(event)}\n`).join('');
}

/**
 * Reads what {@link historyToJsonLines} wrote; empty lines are skipped.
 * @throws {@link TestkitError} `invalid-history`, naming the line.
 */
export function historyFromJsonLines(text: string): History {
  return text.split('\n').flatMap((line, index) => {
    if (line.trim() === '') return [];
    try {
      return [checkHistoryEvent(JSON.parse(line))];
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      throw new TestkitError('invalid-history', `history: line ${index + 1}: ${why}`, { cause });
    }
  });
}

const OPERATIONS = ['acquire', 'release', 'claim', 'write', 'read'];
const INFOS = ['grant', 'expiry', 'removal', 'loss', 'pause', 'resume', 'fault', 'mend'];
/** The field that says of what: text, and never missing. */
const OF: Readonly<Record<string, string>> = {
  acquire: 'lock',
  release: 'lock',
  grant: 'lock',
  expiry: 'lock',
  removal: 'lock',
  loss: 'lock',
  claim: 'resource',
  write: 'resource',
  read: 'resource',
  fault: 'name',
  mend: 'name',
};
const TEXTS = ['token', 'entry', 'value', 'error', 'cause', 'name', 'lock', 'resource'];
const FLAGS = ['shared', 'final', 'inOrder'];

/**
 * The value, if it is an event of a history.
 * @throws {@link TestkitError} `invalid-history`, naming the field and its value.
 */
export function checkHistoryEvent(value: unknown): HistoryEvent {
  const event = (typeof value === 'object' && value !== null ? value : {}) as Record<string, unknown>;
  const { type, f } = event;
  const wrong = (field: string, why: string): TestkitError =>
    new TestkitError(
      'invalid-history',
      `history event: ${field} is ${JSON.stringify(event[field])?.slice(0, 200)}; ${why}`,
    );
  if (!['invoke', 'ok', 'fail', 'unknown', 'info'].includes(`${type}`)) {
    throw wrong('type', 'expected invoke, ok, fail, unknown or info');
  }
  if (typeof event['process'] !== 'string') throw wrong('process', 'expected text');
  if (!Number.isFinite(event['atMs'])) throw wrong('atMs', 'expected milliseconds');
  if (type !== 'info' && !Number.isSafeInteger(event['op'])) throw wrong('op', 'expected an integer');
  const names = type === 'invoke' ? OPERATIONS : type === 'info' ? INFOS : undefined;
  if (names !== undefined && !names.includes(`${f}`)) throw wrong('f', `expected ${names.join(', ')}`);
  const of = names === undefined ? undefined : OF[`${f}`];
  if (of !== undefined && typeof event[of] !== 'string') throw wrong(of, 'expected text');
  if (f === 'claim' && typeof event['token'] !== 'string') throw wrong('token', 'expected text');
  for (const field of TEXTS) {
    if (event[field] !== undefined && typeof event[field] !== 'string') throw wrong(field, 'expected text');
  }
  for (const field of FLAGS) {
    if (event[field] !== undefined && typeof event[field] !== 'boolean') {
      throw wrong(field, 'expected true or false');
    }
  }
  const { entries } = event;
  if (entries !== undefined && !(Array.isArray(entries) && entries.every((one) => typeof one === 'string'))) {
    throw wrong('entries', 'expected a list of texts');
  }
  return event as unknown as HistoryEvent;
}
