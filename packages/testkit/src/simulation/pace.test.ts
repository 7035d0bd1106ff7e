import { expect, test } from 'vitest';
import { Pace } from './pace.ts';
import { SimulatedProcess } from './process.ts';
import { Random } from './random.ts';
import { World } from './world.ts';

/** When pauses of these lengths, begun at once, are over; whatever is over in one turn has the same number. */
async function pausesOf(momentMs: number | undefined, lengths: readonly number[]) {
  const world = new World();
  const pace = new Pace(new SimulatedProcess(world, 'p', new Random('p'), 1), momentMs);
  const over: { atMs: number; turn: number }[] = [];
  for (const ms of lengths)
    void pace.pause(ms).then(() => over.push({ atMs: Math.round(world.now / 10) * 10, turn: world.steps }));
  await world.run(
    5_000,
    () => {},
    () => false,
  );
  return { times: over.map(({ atMs }) => atMs), turns: new Set(over.map(({ turn }) => turn)).size };
}

test('in a program without moments each goes on by itself', async () => {
  expect(await pausesOf(undefined, [10, 20, 310])).toEqual({ times: [10, 20, 310], turns: 3 });
});

test('with moments all that are due by the next one go on in one turn', async () => {
  expect(await pausesOf(250, [10, 20, 200, 310])).toEqual({ times: [250, 250, 250, 500], turns: 2 });
});
