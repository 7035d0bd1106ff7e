import { expect, test } from 'vitest';
import { Random } from './random.ts';

const draw = (random: Random) => Array.from({ length: 5 }, () => random.next());

test('the same seed gives the same numbers, another seed others', () => {
  expect(draw(new Random('a'))).toEqual(draw(new Random('a')));
  expect(draw(new Random('a'))).not.toEqual(draw(new Random('b')));
});

test('a fork depends on seed and label, not on what was drawn before', () => {
  const used = new Random('a');
  draw(used);
  expect(draw(used.fork('x'))).toEqual(draw(new Random('a').fork('x')));
  expect(draw(used.fork('x'))).not.toEqual(draw(used.fork('y')));
});

test('numbers are spread evenly over their range, and both ends of whole numbers come up', () => {
  const random = new Random('spread');
  const counts = new Map<number, number>();
  for (let at = 0; at < 6_000; at += 1) {
    const face = random.whole(1, 6);
    counts.set(face, (counts.get(face) ?? 0) + 1);
  }
  expect([...counts.keys()].sort()).toEqual([1, 2, 3, 4, 5, 6]);
  for (const count of counts.values()) expect(Math.abs(count - 1_000)).toBeLessThan(150);
});
