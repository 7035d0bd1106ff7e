// The points at which the old owner pauses while a new one takes over and writes, each as a play. In all of them
// it then goes on as if nothing had happened.
import type { TcpProxy } from '@lockkeeper/testkit';
import type { Cast } from './cast.ts';
import type { Pauses } from './scene.ts';

export type Play = (cast: Cast) => Promise<void>;

/** In the order of the table. */
export const PAUSE_POINTS = {
  'after the grant and before the claim': async (cast) => {
    await cast.scene.a.grant();
    const text = await cast.scene.peek();
    await cast.takeOver();
    await cast.claimLate();
    await goOn(cast, text);
  },

  'after the claim and before the first write': async (cast) => {
    await cast.begin();
    const text = await cast.scene.peek();
    await cast.takeOver();
    await goOn(cast, text);
  },

  /** Of a read/write lock: the new owner is a reader, which supersedes the writer, and notes something itself. */
  'as a writer, while a reader claims': async (cast) => {
    await cast.begin();
    await cast.append('a');
    const text = await cast.scene.peek();
    await cast.takeOver();
    await cast.claimLate();
    await goOn(cast, text);
  },

  'inside an open transaction': (cast) => pauseInRun(cast, (pause) => ({ beforeEnd: pause })),

  'between check and write': (cast) => pauseInRun(cast, (pause) => ({ beforeWrite: pause })),

  "with the write in a proxy's buffer": async (cast) => {
    const { scene, ledger } = cast;
    await cast.begin();
    const text = await scene.peek();
    const entry = ledger.enter('a');
    using buffer = proxyOf(cast).hold({ direction: 'request', match: scene.a.carries(entry) });
    const late = handled(cast.write(entry, () => scene.a.overwrite(text + entry)));
    await buffer.held;
    const takingOver = handled(cast.takeOver());
    await cast.whilePatient(takingOver);
    await buffer.release();
    await Promise.all([late, takingOver]);
    await goOn(cast, text);
  },

  'with the reply lost': async (cast) => {
    const { scene, ledger } = cast;
    await cast.begin();
    const text = await scene.peek();
    const entry = ledger.enter('a');
    using reply = proxyOf(cast).loseReply({ match: scene.a.carries(entry) });
    const unheard = handled(cast.write(entry, () => scene.a.overwrite(text + entry)));
    await reply.lost;
    const takingOver = handled(cast.takeOver());
    await cast.whilePatient(takingOver);
    // Only now does its connection end, so that it learns that it will not learn.
    reply.restore();
    await Promise.all([unheard, takingOver]);
    await goOn(cast, text);
  },

  'across a release without a successor': async (cast) => {
    const { scene, ledger } = cast;
    await cast.begin();
    await cast.append('a');
    const text = await scene.peek();
    await scene.a.finish();
    ledger.takenOver(await scene.peek());
    await cast.writeLate(text);
    await cast.takeOver();
    await goOn(cast, text);
  },

  'across a restart of the storage': async (cast) => {
    await cast.begin();
    await cast.append('a');
    const text = await cast.scene.peek();
    await cast.takeOver();
    await cast.scene.restart();
    await goOn(cast, text);
  },

  'with a restored older copy of the storage': async (cast) => {
    const { scene, ledger } = cast;
    await cast.begin();
    await cast.append('a');
    const text = await scene.peek();
    ledger.copied();
    const putBack = await scene.backup();
    await cast.takeOver();
    await putBack();
    ledger.putBack();
    // The newest holder goes on first, and is told that the storage does not know it.
    if ((await cast.append('b')) === 'applied') ledger.fault('the older copy went unnoticed');
    await cast.takeOver();
    await goOn(cast, text);
  },
} as const satisfies Readonly<Record<string, Play>>;

export type PausePoint = keyof typeof PAUSE_POINTS;

/** The old owner writes what it had put together before its pause; then the new one writes once more. */
async function goOn(cast: Cast, text: string): Promise<void> {
  await cast.writeLate(text);
  await cast.append('b');
}

/**
 * The old owner pauses inside its run. A storage may let the new one pass, and refuse the rest of the run; or
 * make it wait until the run has ended, or was ended.
 */
async function pauseInRun(cast: Cast, at: (pause: () => Promise<void>) => Pauses): Promise<void> {
  await cast.begin();
  await cast.append('a');
  let reached = () => {};
  let goesOn = () => {};
  const pausing = new Promise<void>((resolve) => (reached = resolve));
  const resumed = new Promise<void>((resolve) => (goesOn = resolve));
  const text = await cast.scene.peek();
  const pause = () => {
    reached();
    return resumed;
  };
  const run = handled(cast.append('a', at(pause)));
  await Promise.race([pausing, run]);
  const takingOver = handled(cast.takeOver());
  await cast.whilePatient(takingOver).finally(goesOn);
  await Promise.all([run, takingOver]);
  await goOn(cast, text);
}

function proxyOf({ scene }: Cast): TcpProxy {
  if (scene.a.proxy === undefined) throw new Error('there is no network to hold anything in');
  return scene.a.proxy;
}

/** Where a play breaks off, what it had begun must not end the process too. */
function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  return promise;
}
