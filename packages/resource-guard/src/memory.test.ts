import { FencingToken, GuardError } from '@lockkeeper/fencing';
import { describe, expect, it } from 'vitest';
import { Gate } from './contract/support.ts';
import { describeGuard, type GuardFixture } from './contract.ts';
import { memoryGuard } from './memory.ts';

describeGuard({ name: 'memory', open: openMemory, lacks: ['rollback'] }, { describe, it });

async function openMemory(): Promise<GuardFixture<undefined>> {
  const guard = memoryGuard({ resource: 'account' });
  let value = '';
  let gate: Gate | undefined;
  return {
    guard,
    other: guard,
    value: {
      read: async () => value,
      write: async (_, next) => {
        await gate?.pass();
        value = next;
      },
      peek: async () => value,
      holdWrites: async () => {
        const held = new Gate();
        gate = held;
        return {
          reached: held.reached,
          letGo: async () => {
            gate = undefined;
            held.open();
          },
        };
      },
    },
  };
}

const token = (revision: bigint) =>
  new FencingToken({ lineage: 'main', revision, acquisition: `a${revision}` });

describe('memoryGuard', () => {
  it('keeps what an effect changed before it threw: memory has no rollback', async () => {
    const guard = memoryGuard({ resource: 'account' });
    let balance = 100;
    const run = guard.run(token(1n), () => {
      balance -= 30;
      throw new Error('declined');
    });
    await expect(run).rejects.toThrow('declined');
    expect(balance).toBe(70);
  });

  it('keeps its turn while an aborted effect goes on', async () => {
    const guard = memoryGuard({ resource: 'account' });
    const pause = new Gate();
    const controller = new AbortController();
    const run = guard.run(token(1n), () => pause.pass(), { signal: controller.signal });
    await pause.reached;
    controller.abort(new Error('no longer wanted'));
    await expect(run).rejects.toThrow('no longer wanted');
    let claimed = false;
    const claim = guard.claim(token(2n)).then(() => {
      claimed = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(claimed).toBe(false);
    pause.open();
    await claim;
  });

  it("lets a reader's claim pass beside a reader's run, which a writer's claim waits for", async () => {
    const reader = (revision: bigint) => new FencingToken({ ...token(revision), shared: true });
    const guard = memoryGuard({ resource: 'account' });
    await guard.claim(token(1n));
    const [writing, reading] = [new Gate(), new Gate()];
    const ended = new Set<string>();
    const settled = () => new Promise((resolve) => setImmediate(resolve)).then(() => [...ended]);
    const writer = guard.run(token(1n), () => writing.pass());
    const first = guard.claim(reader(2n)).then(() => ended.add('the first reader'));
    await writing.reached;
    expect(await settled()).toEqual([]);
    writing.open();
    await Promise.all([writer, first]);
    const run = guard.run(reader(2n), () => reading.pass());
    await reading.reached;
    await guard.claim(reader(3n));
    const next = guard.claim(token(4n)).then(() => ended.add('the next writer'));
    expect(await settled()).toEqual(['the first reader']);
    reading.open();
    await Promise.all([run, next]);
  });

  it('refuses inside an effect what would wait for that effect', async () => {
    const guard = memoryGuard({ resource: 'account' });
    const other = memoryGuard({ resource: 'account' });
    const refused = { code: 'invalid-option', message: expect.stringMatching(/inside an effect/) };
    await guard.run(token(1n), async () => {
      await new Promise(setImmediate);
      await expect(guard.run(token(1n), () => 0)).rejects.toMatchObject(refused);
      await expect(guard.claim(token(2n))).rejects.toMatchObject(refused);
      await expect(guard.seal(token(1n))).rejects.toMatchObject(refused);
      await other.run(token(1n), async () => {
        await expect(guard.claim(token(2n))).rejects.toMatchObject(refused);
      });
    });
    expect(await guard.run(token(1n), () => 'ran', { requireClaim: true })).toBe('ran');
  });

  it('lets what an effect left behind call once it has settled, and not when its caller stopped waiting', async () => {
    const guard = memoryGuard({ resource: 'account' });
    const [pause, early, late] = [new Gate(), new Gate(), new Gate()];
    const again = async (gate: Gate) => {
      await gate.pass();
      return guard.run(token(1n), () => 'again');
    };
    let attempts: readonly Promise<string>[] = [];
    const controller = new AbortController();
    const effect = () => {
      attempts = [again(early), again(late)];
      return pause.pass();
    };
    const run = guard.run(token(1n), effect, { signal: controller.signal });
    await pause.reached;
    controller.abort(new Error('no longer wanted'));
    await expect(run).rejects.toThrow('no longer wanted');
    early.open();
    await expect(attempts[0]).rejects.toMatchObject({ code: 'invalid-option' });
    pause.open();
    await guard.claim(token(1n));
    late.open();
    expect(await attempts[1]).toBe('again');
  });

  it('tells a token that never claimed from a stale one where claims are required', async () => {
    const guard = memoryGuard({ resource: 'account', requireClaim: true });
    await expect(guard.run(token(5n), () => 0)).rejects.toMatchObject({
      code: 'unclaimed',
      current: undefined,
    });
    await guard.claim(token(5n));
    await expect(guard.run(token(4n), () => 0)).rejects.toMatchObject({
      code: 'stale-token',
      current: token(5n),
    });
    await expect(guard.run(token(6n), () => 0)).rejects.toMatchObject({
      code: 'unclaimed',
      current: token(5n),
    });
    expect(await guard.run(token(6n), () => 'ran', { requireClaim: false })).toBe('ran');
  });

  it.each([
    [{ resource: '' }, 'resource is ""; expected a non-empty string'],
    [{ resource: 7 }, 'resource is 7; expected a non-empty string'],
    [{}, 'resource is undefined; expected a non-empty string'],
    [undefined, 'resource is undefined; expected a non-empty string'],
    [{ resource: 'a\0b' }, 'resource is "a\\u0000b"; expected well-formed text without NUL'],
    [{ resource: '\ud800' }, 'resource is "\\ud800"; expected well-formed text without NUL'],
    [{ resource: 'é'.repeat(513) }, 'expected at most 1024 bytes of UTF-8'],
    [{ resource: 'a', requireClaim: 'yes' }, 'requireClaim is "yes"; expected true or false'],
  ])('refuses the options %j', (options, message) => {
    expect(() => memoryGuard(options as never)).toThrow(
      expect.objectContaining({ code: 'invalid-option', message: expect.stringContaining(message) }),
    );
  });

  it('takes a token of another copy of the package, and refuses what is none', async () => {
    const guard = memoryGuard({ resource: 'account' });
    const copy = { lineage: 'main', revision: 1n, acquisition: 'a1' } as FencingToken;
    await guard.claim(copy);
    expect(await guard.run(token(1n), () => 'ran', { requireClaim: true })).toBe('ran');
    for (const wrong of [undefined, null, 'main:1:a1', {}, { ...copy, revision: 1 }]) {
      await expect(guard.claim(wrong as never)).rejects.toMatchObject({ code: 'invalid-token' });
    }
    await expect(guard.run(token(1n), undefined as never)).rejects.toBeInstanceOf(GuardError);
  });
});
