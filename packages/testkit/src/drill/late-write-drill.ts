import { randomBytes } from 'node:crypto';
import { pathToFileURL } from 'node:url';
import { TestkitError } from '../errors.ts';
import { type EtcdServer, startEtcd } from '../etcd-server.ts';
import type { History } from '../history/history.ts';
import { checkFunction, checkMs, checkOneOf, invalid } from '../options.ts';
import { readTarget } from '../tcp-target.ts';
import { timelineOfHistory } from '../timeline/from-history.ts';
import type { Timeline, TimelineAct } from '../timeline/model.ts';
import type { PauseHow } from '../worker/pause.ts';
import { pathOf, type WorkerOptions } from '../worker/worker.ts';
import { type DrilledResource, IN_FLIGHT, type PlaySetting, play, rehearse } from './play.ts';
import { type DrillVerdict, overall } from './verdict.ts';

export interface DrillOptions {
  /** The module under test, TypeScript or JavaScript; it exports `run`: see {@link DrillRun}. */
  readonly worker: string | URL;
  readonly resource: DrilledResource;
  /**
   * Where the first worker pauses, by the names that it gives to `pausePoint`. Default: every point that it passes
   * while it holds a lock, and `in flight` where the resource has a `url`.
   */
  readonly pausePoints?: readonly string[] | undefined;
  /** How it pauses. Default: `sigstop`; in containers `container`. */
  readonly how?: Exclude<PauseHow, 'wait'> | undefined;
  /** An etcd that runs already. Default: one of the drill's own. */
  readonly etcd?: Pick<EtcdServer, 'endpoint'> | undefined;
  /** Of `context.keeper`. Default 2,000, the least that etcd grants: each point takes somewhat longer than this. */
  readonly ttlMs?: number | undefined;
  /** `context.data` of both workers: whatever structured clone can carry. */
  readonly data?: unknown;
  readonly env?: WorkerOptions['env'];
  readonly execArgv?: WorkerOptions['execArgv'];
  readonly host?: WorkerOptions['host'];
  /**
   * How long the second worker may take to write while the first is paused; then the first goes on all the same, as
   * where a database makes the second wait for the first's transaction. Above the lease's TTL. Default 20,000.
   */
  readonly patienceMs?: number | undefined;
  /** For each other wait: until the point is reached, until a run has ended. Default 30,000. */
  readonly timeoutMs?: number | undefined;
}

/** What the drill found at one point. */
export interface DrilledPoint {
  readonly point: string;
  readonly verdict: DrillVerdict;
  /** One sentence. */
  readonly reason: string;
  /** Updates that a worker was told, or told itself, were done, and that the storage does not have. */
  readonly lostUpdates: readonly string[];
  /** Updates that the storage took from the first worker after the second one, with a newer token, had written. */
  readonly staleWrites: readonly string[];
  /** What happened, of the processes `first` and `second`; for the checker and the timeline. */
  readonly history: History;
}

export interface DrillReport {
  /** `exposed` if one point is; `protected` only if all are. */
  readonly verdict: DrillVerdict;
  readonly points: readonly DrilledPoint[];
  readonly lostUpdates: readonly string[];
  readonly staleWrites: readonly string[];
  /** For people: a line for the verdict and one for each point. */
  readonly text: string;
  /** An act for each point: `renderTimelinePage(report.timeline)` is a page of it. */
  readonly timeline: Timeline;
}

/**
 * Plays the late write with a user's own code on the user's own storage, once for each pause point: a first process
 * gets the lock and is paused at the point, past its lease; a second one gets the lock, and writes; the first goes on
 * as if nothing had happened, and its late write arrives. What the storage holds then is the judge, not what the
 * processes believe.
 *
 * Before that both run once undisturbed. A point that was never reached, a process that failed or ended, and a lock
 * that nobody held make a point `inconclusive`, never `protected`.
 * @throws {@link TestkitError} `invalid-option`; `drill-failed` where the undisturbed run fails already; what starting
 * an etcd throws, and what `reset` and `read` throw.
 */
export async function lateWriteDrill(options: DrillOptions): Promise<DrillReport> {
  const { patienceMs, timeoutMs, ttlMs } = checkOptions(options);
  await using etcd = options.etcd === undefined ? await startEtcd() : undefined;
  const setting: PlaySetting = {
    module: pathToFileURL(pathOf(options.worker)),
    resource: options.resource,
    etcdEndpoint: (options.etcd ?? etcd)?.endpoint ?? '',
    namespace: `drill-${randomBytes(6).toString('hex')}`,
    ttlMs,
    data: options.data,
    how: options.how,
    worker: { env: options.env, execArgv: options.execArgv, host: options.host },
    patienceMs,
    timeoutMs,
  };
  const passed = await rehearse(setting);
  const points: DrilledPoint[] = [];
  for (const point of pointsOf(options, passed)) {
    const { verdict, history } = await play(point, setting);
    points.push({ point, ...verdict, history });
  }
  return reportOf(points);
}

/** What would otherwise show only when both processes have run, or never: a `wait` lets the lease be renewed. */
function checkOptions(options: DrillOptions) {
  const { resource, how } = options;
  for (const name of ['reset', 'read'] as const) checkFunction(`resource.${name}`, resource?.[name]);
  if (resource.url !== undefined) readTarget(resource.url, 'resource.url');
  checkPoints(options);
  checkOneOf('how', how, ['sigstop', 'container', 'block-event-loop']);
  const ttlMs = checkMs('ttlMs', options.ttlMs, 2_000);
  const patienceMs = checkMs('patienceMs', options.patienceMs, 20_000);
  if (patienceMs <= ttlMs) throw invalid('patienceMs', patienceMs, `more than ttlMs, which is ${ttlMs}`);
  return { patienceMs, ttlMs, timeoutMs: checkMs('timeoutMs', options.timeoutMs, 30_000) };
}

function checkPoints({ pausePoints, resource }: DrillOptions): void {
  if (pausePoints !== undefined && !Array.isArray(pausePoints)) {
    throw invalid('pausePoints', pausePoints, 'a list of names');
  }
  if (pausePoints?.length === 0) throw noPoint('pausePoints is empty');
  if (resource.url !== undefined || !pausePoints?.includes(IN_FLIGHT)) return;
  throw new TestkitError('invalid-option', `lateWriteDrill: the point "${IN_FLIGHT}" needs resource.url`);
}

function pointsOf({ pausePoints, resource }: DrillOptions, passed: readonly string[]): readonly string[] {
  const points = pausePoints ?? [...passed, ...(resource.url === undefined ? [] : [IN_FLIGHT])];
  if (points.length === 0) throw noPoint('run passes none while it holds a lock');
  return points;
}

const noPoint = (why: string) => new TestkitError('invalid-option', `lateWriteDrill: no pause point: ${why}`);

function reportOf(points: readonly DrilledPoint[]): DrillReport {
  const verdict = overall(points.map((point) => point.verdict));
  const lines = points.map(({ point, verdict, reason }) => `  ${verdict.padEnd(12)} ${point}: ${reason}`);
  return {
    verdict,
    points,
    lostUpdates: points.flatMap(({ lostUpdates }) => lostUpdates),
    staleWrites: points.flatMap(({ staleWrites }) => staleWrites),
    text: [verdict, ...lines, ''].join('\n'),
    timeline: { title: `Late writes: ${verdict}`, acts: points.map(actOf) },
  };
}

function actOf({ point, verdict, reason, history }: DrilledPoint): TimelineAct {
  const panels = timelineOfHistory(history).acts.flatMap((act) => act.panels);
  const told = { good: verdict === 'protected', text: `${verdict}: ${reason}` };
  return { title: point, panels: panels.map((panel) => ({ ...panel, title: '', verdict: told })) };
}
