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

it('counts those in use, whether one or many, and frees each once', () => {
  const slots = new SlotTable();
  const counts = () => slots.count('a');
  expect(counts()).toBe(0);
  slots.take('a');
  slots.free('a', 1);
  expect(counts()).toBe(1);
  for (let slot = 1; slot < 100; slot += 1) expect(slots.take('a')).toBe(slot);
  expect(counts()).toBe(100);
  for (let slot = 0; slot < 100; slot += 1) slots.free('a', slot);
  slots.free('a', 0);
  expect([counts(), slots.take('a'), slots.take('a')]).toEqual([0, 0, 1]);
});
