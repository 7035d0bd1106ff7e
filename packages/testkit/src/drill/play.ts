// One play of a drill: the first worker pauses at a point past its lease, the second takes over, the first goes on.
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { chunkContaining } from '../chunk-matchers.ts';
import { TestkitError } from '../errors.ts';
import type { History } from '../history/history.ts';
import { invalid } from '../options.ts';
import { startTcpProxy, type TcpProxy } from '../tcp-proxy.ts';
import { wallTime } from '../worker/messages.ts';
import type { PauseHow } from '../worker/pause.ts';
import type { WorkerOptions } from '../worker/worker.ts';
import { historyOfPlay } from './drill-history.ts';
import { DrilledProcess, type RunEnd } from './drilled-process.ts';
import { type DrillState, judge, type PlayVerdict } from './verdict.ts';

/** The point at which the process has done all that it has to do: its request to the storage is on its way. */
export const IN_FLIGHT = 'in flight';

/** The user's own storage, past all guards. */
export interface DrilledResource {
  /**
   * Makes it as it is before any update. Called before every point. What a guard knows has to be forgotten too: it is
   * of another history of etcd.
   */
  reset(): Promise<unknown> | unknown;
  /** What it holds now, as anybody would find it: never what a worker says that it wrote. */
  read(): Promise<DrillState> | DrillState;
  /**
   * Its address. Then `run` gets one in `resourceUrl`, and there is the point `in flight` too, at which the request
   * that carries the update is held back in the network: it has to travel as it is, without TLS or compression.
   */
  readonly url?: string | undefined;
}

export interface PlaySetting {
  readonly module: URL;
  readonly resource: DrilledResource;
  readonly etcdEndpoint: string;
  readonly namespace: string;
  readonly ttlMs: number;
  readonly data: unknown;
  readonly how: Exclude<PauseHow, 'wait'> | undefined;
  readonly worker: Pick<WorkerOptions, 'env' | 'execArgv' | 'host'>;
  readonly patienceMs: number;
  readonly timeoutMs: number;
}

export interface Played {
  readonly verdict: PlayVerdict;
  readonly history: History;
}

/** A worker's standing still, by itself or in the network. */
interface Standstill {
  /** @throws TestkitError `timeout`, `not-running` */
  reached(): Promise<void>;
  end(): Promise<unknown>;
}

export async function play(point: string, setting: PlaySetting): Promise<Played> {
  const { resource, timeoutMs, patienceMs } = setting;
  await resource.reset();
  const { url } = resource;
  await using proxy = point === IN_FLIGHT && url !== undefined ? await startTcpProxy(url) : undefined;
  const pauseAt = proxy === undefined ? { [point]: { how: setting.how } } : undefined;
  await using first = await startFirst(setting, proxy?.url ?? url, pauseAt);
  await using second = await startSecond(setting);

  const pause = proxy === undefined ? pauseOf(first, point, timeoutMs) : inFlight(first, proxy, timeoutMs);
  // Not before everything else may have taken its time.
  const firstRun = first.run(3 * timeoutMs + patienceMs);
  const missed = await Promise.race([
    pause.reached().then(() => undefined, messageOf),
    firstRun.then(tooEarly),
  ]);
  if (missed !== undefined) {
    const verdict = { verdict: 'inconclusive', reason: missed, lostUpdates: [], staleWrites: [] } as const;
    return { verdict, history: [] };
  }
  const pausedAtMs = wallTime();

  const secondRun = second.run(patienceMs + timeoutMs);
  const takenOver = await patiently(secondRun, patienceMs);
  const before = await readState(resource);
  const held = first.isHolding;
  const resumedAtMs = wallTime();
  await pause.end();

  const firstEnd = (await patiently(firstRun, timeoutMs)) ?? TOO_LATE;
  const secondEnd = await secondRun;
  const fromMs = wallTime();
  const after = await readState(resource);
  const verdict = judge({
    held,
    tookOver: takenOver?.outcome === 'acknowledged',
    first: { update: first.update, tokens: first.tokens, ...firstEnd },
    second: { update: second.update, tokens: second.tokens, ...secondEnd },
    before,
    after,
  });
  const look = { fromMs, toMs: wallTime(), state: after };
  return {
    verdict,
    history: historyOfPlay(first.told, second.told, { point, pausedAtMs, resumedAtMs }, look),
  };
}

/**
 * Both workers, one after the other and undisturbed: what then goes wrong is none of the pauses' doing.
 * @returns the points that the first passed while it held a lock.
 * @throws TestkitError `drill-failed`
 */
export async function rehearse(setting: PlaySetting): Promise<readonly string[]> {
  const { resource, timeoutMs } = setting;
  await resource.reset();
  await using first = await startFirst(setting, resource.url).catch(notReady);
  await using second = await startSecond(setting).catch(notReady);
  for (const one of [first, second]) {
    const { outcome, error } = await one.run(timeoutMs);
    if (outcome !== 'acknowledged') throw failed(`the ${one.worker.name} run did not succeed: ${error}`);
    if (one.tokens.size === 0) throw failed(`the ${one.worker.name} run acquired no lock of Lockkeeper`);
  }
  const state = await readState(resource);
  const both = [first, second].map(({ update }) => update);
  const isThere = typeof state === 'number' ? state === 2 : both.every((update) => state.includes(update));
  if (!isThere) {
    throw failed(
      `resource.read() gave ${JSON.stringify(state)}; expected the updates ${both.join(' and ')}, or 2`,
    );
  }
  return first.pointsHeld;
}

async function readState(resource: DrilledResource): Promise<DrillState> {
  const state = await resource.read();
  if (typeof state === 'string' || typeof state === 'number' || Array.isArray(state)) return state;
  throw invalid('what resource.read() gave', state, 'a list of updates, a text or a number');
}

function startFirst(
  setting: PlaySetting,
  resourceUrl: string | undefined,
  pauseAt?: WorkerOptions['pauseAt'],
): Promise<DrilledProcess> {
  return start(setting, 'first', resourceUrl, pauseAt);
}

function startSecond(setting: PlaySetting): Promise<DrilledProcess> {
  return start(setting, 'second', setting.resource.url);
}

function start(
  { module, etcdEndpoint, namespace, ttlMs, data, worker, timeoutMs }: PlaySetting,
  identity: 'first' | 'second',
  resourceUrl: string | undefined,
  pauseAt?: WorkerOptions['pauseAt'],
): Promise<DrilledProcess> {
  const update = `${identity}-${randomBytes(4).toString('hex')}`;
  const keeper = { hosts: etcdEndpoint, namespace, ttlMs, identity };
  return DrilledProcess.start(module, { update, keeper, resourceUrl, data }, timeoutMs, {
    ...worker,
    pauseAt,
  });
}

function pauseOf(first: DrilledProcess, point: string, timeoutMs: number): Standstill {
  const pause = first.worker.pauseAt(point);
  return { reached: () => pause.reached({ timeoutMs }), end: () => pause.resume() };
}

/** The request is held, and its process frozen, so that nothing renews the lease. It arrives before the process runs. */
function inFlight(first: DrilledProcess, proxy: TcpProxy, timeoutMs: number): Standstill {
  const request = proxy.hold({ direction: 'request', match: chunkContaining(first.update) });
  return {
    reached: async () => {
      if ((await patiently(request.held, timeoutMs)) === undefined) {
        throw new TestkitError('timeout', `no request with ${first.update} came within ${timeoutMs} ms`);
      }
      await first.worker.pause();
    },
    end: async () => {
      await request.release();
      await first.worker.resume();
    },
  };
}

/** `undefined` when the time is up. */
async function patiently<T>(promise: Promise<T>, timeoutMs: number): Promise<T | undefined> {
  const over = new AbortController();
  const limit = sleep(timeoutMs, undefined, { signal: over.signal }).catch(() => undefined);
  return Promise.race([promise, limit]).finally(() => over.abort());
}

const TOO_LATE: RunEnd = { outcome: 'timeout', error: 'it had not ended when the time was up' };

const tooEarly = ({ outcome, error }: RunEnd) =>
  `the first worker's run ended (${error ?? outcome}) and had not paused there`;

const messageOf = (error: Error) => error.message;

const notReady = (error: Error): never => {
  if (!(error instanceof TestkitError) || error.code === 'invalid-option') throw error;
  throw failed(`the module was not loaded: ${error.message}`, error);
};

const failed = (what: string, cause?: Error) =>
  new TestkitError('drill-failed', `lateWriteDrill: already without a pause ${what}`, { cause });
