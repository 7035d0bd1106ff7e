import { describe, expect, it } from 'vitest';
import type { KeyValue, WatchEvent } from '../coordinator/coordinator.ts';
import { downgraded } from './acquisition.ts';
import { QueuePicture } from './queue-picture.ts';

const details = (isReader = false) => {
  const own = JSON.stringify({ v: 1, acquisition: 'a' });
  return new TextEncoder().encode(isReader ? downgraded(own) : own);
};

function kv(key: string, createRevision: number, modRevision = createRevision, isReader = false): KeyValue {
  const [create, mod] = [BigInt(createRevision), BigInt(modRevision)];
  const value = details(isReader);
  return { key, value, createRevision: create, modRevision: mod, version: 1n, lease: 1n };
}

const put = (...args: Parameters<typeof kv>): WatchEvent => ({ type: 'put', kv: kv(...args) });
const gone = (key: string, revision: number): WatchEvent => {
  return { type: 'delete', key, modRevision: BigInt(revision) };
};

describe('a picture of a queue', () => {
  it('has the first in front, and then the one behind it', () => {
    const picture = new QueuePicture(undefined, [kv('a', 2), kv('b', 3)], 5n);
    picture.apply([put('c', 6)]);
    expect(picture.advance()).toEqual([]);
    expect([picture.show('a', 2n), picture.show('b', 3n)]).toEqual(['in-front', 'waiting']);
    picture.apply([gone('a', 7)]);
    expect(picture.advance()).toEqual(['b']);
    expect([picture.show('b', 3n), picture.show('c', 6n)]).toEqual(['in-front', 'waiting']);
  });

  it('brings nobody to the front when one in the middle goes', () => {
    const picture = new QueuePicture(undefined, [kv('a', 2), kv('b', 3), kv('c', 4)], 4n);
    picture.apply([gone('b', 5)]);
    expect(picture.advance()).toEqual([]);
    expect(picture.show('c', 4n)).toBe('waiting');
  });

  it('shows nothing of a key that it has not seen put, whatever was there before', () => {
    const picture = new QueuePicture(undefined, [kv('a', 2)], 2n);
    expect(picture.show('a', 9n)).toBeUndefined();
    expect(picture.show('b', 9n)).toBeUndefined();
    picture.apply([gone('a', 8)]);
    picture.apply([put('a', 9)]);
    expect(picture.advance()).toEqual(['a']);
    expect(picture.show('a', 9n)).toBe('in-front');
    expect(picture.show('a', 2n)).toBe('key-deleted');
  });

  it('shows a key that is gone, or was written again, also where it was read so', () => {
    const picture = new QueuePicture(undefined, [kv('a', 2, 4), kv('c', 3)], 9n);
    expect(picture.show('a', 2n)).toBe('foreign-write');
    expect(picture.show('b', 5n)).toBe('key-deleted');
    picture.apply([put('c', 3, 10)]);
    expect(picture.show('c', 3n)).toBe('foreign-write');
  });

  it('takes a holder that rewrites its value for no newcomer', () => {
    const picture = new QueuePicture(undefined, [kv('a', 2), kv('b', 3)], 3n);
    picture.apply([put('a', 2, 4)]);
    expect(picture.advance()).toEqual([]);
    picture.apply([gone('a', 5)]);
    expect(picture.advance()).toEqual(['b']);
  });

  it('orders keys of one revision by their names', () => {
    const picture = new QueuePicture(undefined, [], 1n);
    picture.apply([put('b', 2), put('a', 2)]);
    expect(picture.advance()).toEqual(['a']);
  });

  it('lets readers hold together, up to the next writer', () => {
    const picture = new QueuePicture('w/', [kv('w/1', 2), kv('r/1', 3), kv('r/2', 4)], 4n);
    picture.apply([put('w/2', 5)]);
    picture.apply([put('r/3', 6)]);
    expect(picture.advance()).toEqual([]);
    picture.apply([gone('w/1', 7)]);
    expect(picture.advance()).toEqual(['r/1', 'r/2']);
    picture.apply([gone('r/2', 8)]);
    picture.apply([gone('r/1', 9)]);
    expect(picture.advance()).toEqual(['w/2']);
  });

  it('lets readers in beside a writer that has become one, and nobody new once a foreign hand made it a writer again', () => {
    const picture = new QueuePicture('w/', [kv('w/1', 2), kv('r/1', 3)], 3n);
    picture.apply([put('w/1', 2, 4, true)]);
    expect(picture.advance()).toEqual(['r/1']);
    picture.apply([put('w/2', 5)]);
    expect(picture.advance()).toEqual([]);
    picture.apply([gone('w/2', 6)]);
    picture.apply([put('w/1', 2, 7)]);
    picture.apply([put('r/2', 8)]);
    expect(picture.advance()).toEqual([]);
    expect(picture.show('r/2', 8n)).toBe('waiting');
  });

  it.each([undefined, 'w/'])(
    'agrees with a look at the whole queue after each of 500 changes (%s)',
    (writers) => {
      const random = pseudoRandom(4_711);
      let queue: KeyValue[] = [];
      const picture = new QueuePicture(writers, queue, 1n);
      const inFront = new Set<string>();
      for (let revision = 2; revision < 500; revision += 1) {
        const victim = queue[Math.floor(random() ** 2 * queue.length)];
        const events: WatchEvent[] = [];
        if (victim !== undefined && random() < 0.5) events.push(gone(victim.key, revision));
        else events.push(put(`${random() < 0.4 ? 'w' : 'r'}/${revision}`, revision));
        for (const event of events) {
          if (event.type === 'put') queue.push(event.kv);
          else queue = queue.filter(({ key }) => key !== event.key);
        }
        picture.apply(events);
        for (const key of picture.advance()) inFront.add(key);
        const shown = queue.map(({ key, createRevision }) => [
          key,
          picture.show(key, createRevision),
          inFront.has(key),
        ]);
        const expected = queue.map(({ key }) => {
          const may = mayHold(queue, key, writers);
          return [key, may ? 'in-front' : 'waiting', may];
        });
        expect(shown).toEqual(expected);
        expect(picture.length).toBe(queue.length);
      }
    },
  );
});

/** By the rule itself: a reader waits for the last writer before it, everybody else for everybody before him. */
function mayHold(queue: readonly KeyValue[], own: string, writers: string | undefined): boolean {
  const before = queue.slice(
    0,
    queue.findIndex(({ key }) => key === own),
  );
  const isReader = writers !== undefined && !own.startsWith(writers);
  return !before.some(({ key }) => !isReader || key.startsWith(writers));
}

function pseudoRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}
