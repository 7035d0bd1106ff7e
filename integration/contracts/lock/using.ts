import type { LockkeeperError } from '@lockkeeper/core';
import { describe, expect, it } from 'vitest';
import { isEnding } from '../../support/faulty-coordinator.ts';
import type { MakeLockWorld } from '../lock-world.ts';
import { settled, soon } from '../outcome.ts';

/** Case C5: what `using` settles to. */
export function describeUsing(where: string, newWorld: MakeLockWorld): void {
  describe(`locks on ${where}: C5, what using() settles to`, () => {
    const thrown = new Error('business');
    const callbacks = {
      returns: () => 'result',
      resolves: async () => 'result',
      // biome-ignore lint/suspicious/noThenProperty: a thenable that is no promise is the point
      'gives a thenable': () => ({ then: (resolve: (value: string) => void) => resolve('result') }),
      throws: () => {
        throw thrown;
      },
      rejects: () => Promise.reject(thrown),
      'throws undefined': () => {
        // biome-ignore lint/style/useThrowOnlyError: a caller may throw anything
        throw undefined;
      },
    };
    const releases = ['confirmed', 'reply lost', 'hangs', 'lock lost', 'key deleted'] as const;
    const matrix = Object.keys(callbacks).flatMap((callback) =>
      releases.map((release) => [callback, release] as const),
    );

    it.each(matrix)('callback %s, release %s', async (callback, release) => {
      const world = await newWorld();
      const { keeper, connection } = await world.faulty({ ttlMs: release === 'lock lost' ? 2_000 : 20_000 });
      const work = callbacks[callback as keyof typeof callbacks];
      const outcome = await soon(
        world,
        settled(
          keeper.lock('x').using({}, async (hold): Promise<string> => {
            if (release === 'reply lost') connection.loseNextReply(isEnding);
            if (release === 'hangs' || release === 'lock lost') connection.goSilent();
            if (release === 'lock lost') await world.until('lost', () => hold.standing === 'lost');
            if (release === 'key deleted') {
              const key = `${world.namespace}/lock/x/${(await world.queue('x'))[0]}`;
              await world.raw.txn({ compare: [], success: [{ op: 'delete', key }], failure: [] });
            }
            return work();
          }),
        ),
      );
      const lost = release === 'lock lost' || release === 'key deleted';
      if (callback === 'throws undefined') expect(outcome).toEqual({ error: undefined });
      else if (callback === 'throws' || callback === 'rejects') {
        expect(outcome.error).toBe(thrown);
        expect((thrown as { lockError?: LockkeeperError }).lockError?.code).toBe(lost ? 'lost' : undefined);
        Reflect.deleteProperty(thrown, 'lockError');
      } else if (lost) expect(outcome).toMatchObject({ error: { code: 'lost', result: 'result' } });
      else expect(outcome).toEqual({ value: 'result' });
    });
  });
}
