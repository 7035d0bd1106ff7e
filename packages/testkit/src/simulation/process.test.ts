import { expect, test } from 'vitest';
import { SimulatedProcess } from './process.ts';
import { Random } from './random.ts';
import { World } from './world.ts';

function scene(rate = 1, seed = 'process') {
  const world = new World();
  const process = new SimulatedProcess(world, 'p', new Random(seed), rate);
  const run = (until: number) =>
    world.run(
      until,
      () => {},
      () => false,
    );
  return { world, process, run };
}

test('its clocks run at its own rate; a step moves only the wall clock', async () => {
  const { process, run } = scene(1.05);
  const wall = process.wallTime();
  await run(1_000);
  expect(process.now()).toBeCloseTo(1_050);
  process.stepWallTime(-5_000);
  expect(process.wallTime() - wall).toBeCloseTo(1_050 - 5_000);
  expect(process.now()).toBeCloseTo(1_050);
});

test('timers fire about when they are due on its clock, a little early at most', async () => {
  const { process, run } = scene(0.95);
  const late: number[] = [];
  for (let delay = 0; delay < 1_000; delay += 10) {
    process.setTimer(delay, () => late.push(process.now() - delay));
  }
  process.setTimer(10, () => late.push(Number.NaN)).cancel();
  await run(2_000);
  expect(late).toHaveLength(100);
  expect(Math.min(...late)).toBeGreaterThanOrEqual(-1);
  expect(Math.max(...late)).toBeLessThan(3);
  expect(process.pendingTimers).toBe(0);
});

test('after a stall the interrupted code goes on first, then overdue timers and messages, in either order', async () => {
  const orders = new Set<string>();
  for (let seed = 0; seed < 20; seed += 1) {
    const { world, process, run } = scene(1, `stall ${seed}`);
    const seen: string[] = [];
    process.setTimer(50, () => seen.push('timer'));
    world.at(60, () => process.deliver(() => seen.push('message')));
    void process.stall(100).then(() => seen.push('code'));
    await run(99);
    expect(seen).toEqual([]);
    await run(200);
    orders.add(seen.join(', '));
  }
  expect([...orders].sort()).toEqual(['code, message, timer', 'code, timer, message']);
});

test('while it is suspended its monotonic clock stands still and its wall clock goes on', async () => {
  const { world, process, run } = scene();
  const wall = process.wallTime();
  let firedAt = 0;
  process.setTimer(100, () => {
    firedAt = world.now;
  });
  process.stop({ suspend: true });
  world.at(1_000, () => process.resume({ suspend: true }));
  await run(1_050);
  expect(process.now()).toBeCloseTo(50);
  expect(process.wallTime() - wall).toBeCloseTo(1_050);
  expect(firedAt).toBe(0);
  await run(1_200);
  expect(Math.abs(firedAt - 1_100)).toBeLessThan(3);
});

test('nothing of a killed process runs any more', async () => {
  const { world, process, run } = scene();
  const seen: string[] = [];
  process.setTimer(10, () => seen.push('timer'));
  world.at(20, () => process.deliver(() => seen.push('message')));
  process.kill();
  await run(100);
  expect(seen).toEqual([]);
  expect(process.pendingTimers).toBe(0);
});
