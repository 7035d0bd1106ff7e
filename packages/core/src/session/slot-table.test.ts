import { expect, it } from 'vitest';
import { SlotTable } from './slot-table.ts';

it('gives the smallest free slot of each name', () => {
  const slots = new SlotTable();
  expect([slots.take('a'), slots.take('a'), slots.take('b'), slots.take('a')]).toEqual([0, 1, 0, 2]);
  slots.free('a', 1);
  expect([slots.take('a'), slots.take('a')]).toEqual([1, 3]);
  slots.free('b', 0);
  expect(slots.take('b')).toBe(0);
});
