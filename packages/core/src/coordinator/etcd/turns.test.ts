import { expect, it } from 'vitest';
import { Turns } from './turns.ts';

it('grants turns in order, skips who left, and loses none', async () => {
  const turns = new Turns(2);
  expect([turns.tryTake(), turns.tryTake(), turns.tryTake()]).toEqual([true, true, false]);
  const order: string[] = [];
  const places = ['a', 'b', 'c', 'd'].map((name) => {
    const place = turns.queue();
    void place.granted.then(() => order.push(name));
    return place;
  });
  places[1]?.leave();
  turns.give();
  turns.give();
  await Promise.resolve();
  expect(order).toEqual(['a', 'c']);
  // Granted, and given up before it was used.
  places[2]?.leave();
  await Promise.resolve();
  expect(order).toEqual(['a', 'c', 'd']);
  turns.give();
  turns.give();
  expect([turns.tryTake(), turns.tryTake(), turns.tryTake()]).toEqual([true, true, false]);
});
