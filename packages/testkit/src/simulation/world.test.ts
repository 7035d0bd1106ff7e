import { expect, test } from 'vitest';
import { World } from './world.ts';

const never = () => false;
const nothing = () => {};

test('events happen in the order of their time, those of one time in the order in which they were made', async () => {
  const world = new World();
  const seen: string[] = [];
  for (const [name, at] of [
    ['c', 30],
    ['a', 10],
    ['b1', 20],
    ['b2', 20],
    ['late', 99],
  ] as const) {
    world.at(at, () => seen.push(`${name} at ${world.now}`));
  }
  expect(await world.run(50, nothing, never)).toBe(false);
  expect(seen).toEqual(['a at 10', 'b1 at 20', 'b2 at 20', 'c at 30']);
  expect(world.now).toBe(50);
});

test('the code that an event sets going has run before the next event, and before the look after it', async () => {
  const world = new World();
  const seen: string[] = [];
  world.at(1, () => {
    void (async () => {
      for (let turn = 0; turn < 100; turn += 1) await Promise.resolve();
      seen.push('its code');
    })();
  });
  world.at(1, () => seen.push('next event'));
  await world.run(10, () => seen.push('look'), never);
  expect(seen).toEqual(['its code', 'look', 'next event', 'look']);
});

test('what was called off does not happen, and it stops once it is over', async () => {
  const world = new World();
  const seen: number[] = [];
  world.at(1, () => seen.push(1));
  world.at(2, () => seen.push(2))();
  world.at(3, () => seen.push(3));
  world.at(4, () => seen.push(4));
  expect(await world.run(10, nothing, () => seen.includes(3))).toBe(true);
  expect(seen).toEqual([1, 3]);
  expect(world.now).toBe(3);
});
