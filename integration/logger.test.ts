import { Writable } from 'node:stream';
import { connect, type Logger } from '@lockkeeper/core';
import { memoryCoordinator, memoryStore, VirtualClock } from '@lockkeeper/core/memory';
import { FaultyCoordinator, startWorker } from '@lockkeeper/testkit';
import { pino } from 'pino';
import { describe, expect, test } from 'vitest';

interface Line {
  readonly level: number;
  readonly msg: string;
  readonly session?: string;
  readonly cause?: string;
  readonly err?: { readonly type: string; readonly message: string; readonly stack: string };
}

/** pino's lines, as a log collector reads them. */
function collected(): { readonly logger: pino.Logger; readonly lines: Line[] } {
  const lines: Line[] = [];
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      for (const line of chunk.toString().trim().split('\n')) lines.push(JSON.parse(line) as Line);
      done();
    },
  });
  return { logger: pino({ level: 'debug' }, sink), lines };
}

describe('a logger', () => {
  test('of pino is taken as it is, and told of trouble with its cause', async () => {
    const { logger, lines } = collected();
    const clock = new VirtualClock();
    const connection = new FaultyCoordinator(memoryCoordinator({ store: memoryStore({ clock }) }));
    const keeper = await connect({ coordinator: connection, ttlMs: 9_000, logger });
    const hold = await keeper.lock('x').acquire();
    const { session } = await keeper.health();
    expect(lines).toEqual([]);

    connection.goSilent();
    await clock.advance(9_000);
    expect(hold.standing).toBe('lost');
    const failed = lines.filter(({ msg }) => msg === 'a lease renewal failed');
    expect(failed.length).toBeGreaterThan(1);
    expect(failed[0]).toMatchObject({
      level: pino.levels.values['warn'],
      session: session?.id,
      err: { type: 'LockkeeperError', message: expect.stringContaining('renew'), stack: expect.any(String) },
    });
    expect(lines.filter(({ msg }) => msg.startsWith('session '))).toMatchObject([
      { level: pino.levels.values['warn'], msg: 'session suspect', session: session?.id },
      { level: pino.levels.values['warn'], msg: 'session lost', session: session?.id, cause: 'unconfirmed' },
    ]);
    const closing = keeper.close();
    await clock.advance(10_000);
    await closing;
    expect(lines.at(-1)).toMatchObject({ level: pino.levels.values['debug'], session: session?.id });
  });

  test('hears of a regular end without alarm', async () => {
    const { logger, lines } = collected();
    const keeper = await connect({ coordinator: memoryCoordinator({ clock: new VirtualClock() }), logger });
    await (await keeper.lock('x').acquire()).release();
    await keeper.close();
    expect(lines).toMatchObject([
      { level: pino.levels.values['info'], msg: 'session lost', cause: 'closed' },
    ]);
  });

  test('that lacks a level is refused', async () => {
    for (const logger of [{}, { debug() {}, info() {}, warn() {} }, 'console', null]) {
      const options = { coordinator: memoryCoordinator(), logger: logger as unknown as Logger };
      await expect(connect(options)).rejects.toMatchObject({
        code: 'invalid-option',
        message: expect.stringContaining('logger'),
      });
    }
  });

  test('is silence by default: a process whose session is lost writes nothing', async () => {
    await using worker = await startWorker(new URL('./support/silent-worker.ts', import.meta.url));
    expect(await worker.next('lost')).toMatchObject({ cause: 'unconfirmed' });
    expect((await worker.exited).code).toBe(0);
    expect([worker.stdout, worker.stderr]).toEqual(['', '']);
  });
});
