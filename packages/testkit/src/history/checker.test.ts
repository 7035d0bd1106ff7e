import { FencingToken } from '@lockkeeper/fencing';
import { describe, expect, it } from 'vitest';
import { checkHistory, violationsIn } from './checker.ts';
import type { History, HistoryEvent } from './history.ts';
import { HistoryRecorder, type RecordedProcess } from './history-recorder.ts';

/** Of revision `n`. */
const t = (n: number, lineage = 'L') =>
  new FencingToken({ lineage, revision: BigInt(n), acquisition: `a${n}` });

interface Cast {
  readonly a: RecordedProcess;
  readonly b: RecordedProcess;
  readonly etcd: RecordedProcess;
}

function historyOf(play: (cast: Cast, recorder: HistoryRecorder) => void): History {
  let ms = 0;
  const recorder = new HistoryRecorder({ now: () => (ms += 1) });
  const [a, b, etcd] = ['A', 'B', 'etcd'].map((name) => recorder.process(name)) as [
    RecordedProcess,
    RecordedProcess,
    RecordedProcess,
  ];
  play({ a, b, etcd }, recorder);
  return recorder.history;
}

const kinds = (play: (cast: Cast) => void) => checkHistory(historyOf(play)).map(({ kind }) => kind);

function acquire(who: RecordedProcess, token: FencingToken | bigint, shared?: boolean): void {
  who.invoke({ f: 'acquire', lock: 'job', shared }).ok({ token });
}
function release(who: RecordedProcess, token?: FencingToken): void {
  who.invoke({ f: 'release', lock: 'job', token }).ok();
}
function write(who: RecordedProcess, token: FencingToken | undefined, entry: string): void {
  who.invoke({ f: 'write', resource: 'account', token, entry }).ok();
}
function claim(who: RecordedProcess, token: FencingToken): void {
  who.invoke({ f: 'claim', resource: 'account', token }).ok();
}
function finalRead(who: RecordedProcess, entries: readonly string[], inOrder?: boolean): void {
  who.invoke({ f: 'read', resource: 'account', final: true }).ok({ entries, inOrder });
}

describe('checkHistory', () => {
  it('finds nothing where all went well, unknown outcomes and reorderings included', () => {
    const history = historyOf(({ a, b, etcd }) => {
      etcd.info({ f: 'grant', lock: 'job', token: t(5) });
      acquire(a, t(5));
      claim(a, t(5));
      write(a, t(5), 'a1');
      a.invoke({ f: 'write', resource: 'account', token: t(5), entry: 'a2' }).unknown();
      a.invoke({ f: 'write', resource: 'account', token: t(5), entry: 'a3' }).unknown();
      a.invoke({ f: 'write', resource: 'account', token: t(5), entry: 'a4' });
      const waiting = b.invoke({ f: 'acquire', lock: 'job' });
      a.info({ f: 'pause' });
      etcd.info({ f: 'expiry', lock: 'job', token: t(5) });
      etcd.info({ f: 'grant', lock: 'job', token: t(9) });
      a.info({ f: 'resume' });
      a.info({ f: 'loss', lock: 'job', token: t(5) });
      waiting.ok({ token: t(9) });
      claim(b, t(9));
      write(b, t(9), 'b1');
      a.invoke({ f: 'write', resource: 'account', token: t(5), entry: 'late' }).fail('stale-token');
      release(b, t(9));
      etcd.info({ f: 'removal', lock: 'job', token: t(9) });
      finalRead(b, ['before', 'a1', 'a2', 'b1'], true);
      write(b, t(9), 'after the last look');
    });
    expect(checkHistory(history)).toEqual([]);
  });

  it('calls two that believe at once an observation, and shows both', () => {
    const history = historyOf(({ a, b }) => {
      acquire(a, t(5));
      acquire(b, t(9));
      a.info({ f: 'loss', lock: 'job', token: t(5) });
      acquire(a, t(12));
      release(b);
    });
    const findings = checkHistory(history);
    expect(findings.map(({ kind, promise }) => `${kind} ${promise}`)).toEqual([
      'overlap none',
      'overlap none',
    ]);
    expect(findings[0]?.events).toEqual([history[1], history[3]]);
    expect(findings[0]?.message).toBe(
      'lock "job": "B" (of token L:9:a9) and "A" (of token L:5:a5) believed at once that they held it',
    );
    expect(violationsIn(findings)).toEqual([]);
  });

  it('tells an overlap once for each grant, of any number of crashed holders', () => {
    const history = historyOf(({ etcd }, recorder) => {
      for (let n = 1; n <= 5_000; n++) {
        etcd.info({ f: 'grant', lock: 'job', token: t(n) });
        acquire(recorder.process(`crashed ${n}`), t(n));
      }
    });
    const found = checkHistory(history).map(({ kind }) => kind);
    expect(found.filter((kind) => kind === 'overlap')).toHaveLength(4_999);
    expect(found.filter((kind) => kind === 'double-grant')).toHaveLength(4_999);
    expect(found).toHaveLength(2 * 4_999);
  });

  it('lets readers hold together, and no writer with them', () => {
    expect(
      kinds(({ a, b, etcd }) => {
        for (const n of [7, 5]) etcd.info({ f: 'grant', lock: 'job', token: t(n), shared: true });
        acquire(a, t(7), true);
        acquire(b, t(5), true);
        etcd.info({ f: 'removal', lock: 'job', token: t(7) });
        claim(a, t(7));
        claim(b, t(5));
      }),
    ).toEqual([]);
    expect(
      kinds(({ a, b }) => {
        acquire(a, t(5), true);
        acquire(b, t(7));
      }),
    ).toEqual(['overlap']);
    expect(
      kinds(({ a, b, etcd }) => {
        etcd.info({ f: 'grant', lock: 'job', token: t(5) });
        etcd.info({ f: 'grant', lock: 'job', token: t(7), shared: true });
        acquire(a, t(7), true);
        release(a);
        acquire(b, t(5));
        write(a, t(7), 'x');
        write(b, t(5), 'y');
      }),
    ).toEqual(['double-grant', 'token-order', 'stale-write']);
  });

  it('rejects two grants that stand together in etcd, and not what two watches tell', () => {
    const grant = { f: 'grant', lock: 'job' } as const;
    expect(
      kinds(({ etcd }) => {
        etcd.info({ ...grant, token: t(5) });
        etcd.info({ ...grant, token: t(9) });
        etcd.info({ f: 'removal', lock: 'job', token: t(5) });
      }),
    ).toEqual(['double-grant']);
    expect(
      kinds(({ a, b }) => {
        a.info({ ...grant, token: t(5) });
        b.info({ ...grant, token: t(5) });
        b.info({ f: 'expiry', lock: 'job' });
        b.info({ ...grant, token: t(9) });
      }),
    ).toEqual([]);
  });

  it('rejects grants whose tokens fall, where their order is known', () => {
    expect(
      kinds(({ a, b }) => {
        acquire(a, t(9));
        release(a);
        acquire(b, t(5));
      }),
    ).toEqual(['token-order']);
    // B asked first, and was paused before it could say that it had got the lock.
    expect(
      kinds(({ a, b }) => {
        const slow = b.invoke({ f: 'acquire', lock: 'job' });
        acquire(a, t(9));
        release(a);
        slow.ok({ token: t(5) });
      }),
    ).toEqual([]);
    expect(
      kinds(({ etcd }) => {
        for (const n of [9, 5]) {
          etcd.info({ f: 'grant', lock: 'job', token: t(n) });
          etcd.info({ f: 'removal', lock: 'job', token: t(n) });
        }
      }),
    ).toEqual(['token-order']);
    // Of another lineage, and of another lock's scheme.
    expect(
      kinds(({ a, b }) => {
        acquire(a, t(9));
        release(a);
        acquire(b, t(5, 'M'));
        release(b);
        acquire(a, 3n);
        release(a);
        acquire(b, 2n);
      }),
    ).toEqual(['token-order']);
  });

  it('rejects one token for two grants', () => {
    expect(
      kinds(({ a, b }) => {
        acquire(a, t(9));
        release(a);
        acquire(b, t(9));
      }),
    ).toEqual(['token-reuse']);
  });

  it('rejects a write and a claim that were accepted late', () => {
    const history = historyOf(({ a, b }) => {
      claim(b, t(9));
      write(a, t(5), 'late');
      claim(a, t(6));
    });
    const findings = checkHistory(history);
    expect(findings.map(({ kind, promise, of }) => `${kind} ${promise} ${of}`)).toEqual([
      'stale-write fencing account',
      'stale-write fencing account',
    ]);
    expect(findings[0]?.message).toContain(
      'the write "late" of token L:5:a5 was accepted after the newer L:9:a9',
    );
    expect(findings[0]?.events).toEqual([history[1], history[3]]);
  });

  it('knows a write that was under way from one that came late, by the order of the store', () => {
    const play =
      (entries: readonly string[], inOrder: boolean) =>
      ({ a, b }: Cast) => {
        const held = a.invoke({ f: 'write', resource: 'account', token: t(5), entry: 'a' });
        write(b, t(9), 'b');
        held.ok();
        finalRead(b, entries, inOrder);
      };
    expect(kinds(play(['a', 'b'], true))).toEqual([]);
    expect(kinds(play(['b', 'a'], false))).toEqual([]);
    expect(kinds(play(['b', 'a'], true))).toEqual(['stale-write']);
  });

  it('tells a stale write once, however it shows', () => {
    expect(
      kinds(({ a, b }) => {
        write(b, t(9), 'b');
        write(a, t(5), 'a');
        finalRead(b, ['b', 'a'], true);
      }),
    ).toEqual(['stale-write']);
  });

  it('rejects a final state without an acknowledged write, and one with what cannot be there', () => {
    const play =
      (...entries: readonly string[]) =>
      ({ a, b }: Cast) => {
        write(a, undefined, 'acknowledged');
        a.invoke({ f: 'write', resource: 'account', entry: 'failed' }).fail();
        a.invoke({ f: 'write', resource: 'account', entry: 'again' }).unknown();
        write(a, undefined, 'again');
        a.invoke({ f: 'write', resource: 'other', entry: 'elsewhere' }).ok();
        finalRead(b, entries);
      };
    expect(kinds(play('acknowledged', 'again', 'again'))).toEqual([]);
    expect(kinds(play('again'))).toEqual(['lost-update']);
    expect(kinds(play('acknowledged'))).toEqual(['lost-update']);
    expect(kinds(play('acknowledged', 'again', 'failed'))).toEqual(['applied-after-fail']);
    expect(kinds(play('acknowledged', 'acknowledged', 'again'))).toEqual(['applied-twice']);
  });

  it('takes an operation that a process began anew for one without an end', () => {
    const events = historyOf(({ a, b }) => {
      a.invoke({ f: 'write', resource: 'account', entry: 'a' });
      finalRead(b, []);
    }).map((event) => ({ ...event, process: 'A', ...('op' in event ? { op: 1 } : {}) }));
    expect(checkHistory(events)).toEqual([]);
  });
});

describe('checkHistory, beside a plain reading of its rules', () => {
  it.each(Array.from({ length: 200 }, (_, seed) => seed + 1))('says the same (%i)', (seed) => {
    const history = randomHistory(seed);
    const found = checkHistory(history).map(({ kind, events }) => {
      const shows = kind === 'lost-update' || kind === 'applied-after-fail' ? events[0] : events.at(-1);
      return `${kind} ${shows === undefined ? -1 : history.indexOf(shows)}`;
    });
    expect(found.sort()).toEqual(plainFindings(history).sort());
  });

  it('and meets every rule that it compares', () => {
    const met = Array.from({ length: 200 }, (_, seed) => plainFindings(randomHistory(seed + 1)));
    expect(new Set(met.flat().map((finding) => finding.split(' ')[0]))).toEqual(
      new Set(['token-order', 'stale-write', 'overlap', 'lost-update', 'applied-after-fail']),
    );
  });
});

/** Each acquisition has a token of its own, every third is shared; the rest is chance. */
function randomHistory(seed: number): History {
  let state = seed;
  // Park and Miller's generator: the same on every run.
  const below = (limit: number) => {
    state = (state * 48_271) % 2_147_483_647;
    return state % limit;
  };
  const recorder = new HistoryRecorder({ now: () => 0 });
  const processes = ['A', 'B', 'C'].map((name) => recorder.process(name));
  const left = Array.from({ length: 30 }, (_, i) => i + 1);
  const given: number[] = [];
  const open: (() => void)[] = [];
  for (let step = 0; step < 40; step += 1) {
    const who = processes[below(3)] as RecordedProcess;
    const token = given[below(given.length || 1)];
    const ends = ['ok', 'ok', 'ok', 'fail', 'unknown'] as const;
    const end = ends[below(ends.length)] ?? 'ok';
    const action = below(6);
    if (action === 0) {
      const [next = 1] = left.splice(Math.min(below(4), left.length - 1), 1);
      const acquire = who.invoke({ f: 'acquire', lock: 'job', shared: next % 3 === 0 });
      given.push(next);
      open.push(() => (end === 'ok' ? acquire.ok({ token: t(next) }) : acquire[end]()));
    } else if (action === 1 && token !== undefined) {
      who.info({ f: 'loss', lock: 'job', token: t(token) });
    } else if (action === 2) {
      open.splice(below(open.length || 1), 1)[0]?.();
    } else if (token !== undefined) {
      const f = action === 3 ? 'claim' : 'write';
      const on = { resource: 'r', token: t(token) };
      const operation = who.invoke(f === 'claim' ? { f, ...on } : { f, ...on, entry: `${step}` });
      open.push(() => operation[end]());
      if (below(2) === 0) open.pop()?.();
    }
  }
  const read = recorder.process('reader').invoke({ f: 'read', resource: 'r', final: true });
  const entries = Array.from({ length: 40 }, (_, step) => `${step}`).filter(() => below(3) > 0);
  read.ok({ entries });
  return recorder.history;
}

/** The rules word by word, pair by pair: the kind, and the place of the event that broke it. */
function plainFindings(history: History): string[] {
  const invokes = history.flatMap((invoke, from) => (invoke.type === 'invoke' ? [{ invoke, from }] : []));
  const all = invokes.map(({ invoke, from }) => {
    const to = history.findIndex((one, at) => at > from && one.type !== 'info' && one.op === invoke.op);
    const end = history[to];
    const ok = end?.type === 'ok' ? end : undefined;
    const revision = Number((ok?.token ?? ('token' in invoke ? invoke.token : '') ?? '').split(':')[1]);
    return { invoke, from, to, end, ok, revision, shared: isShared(revision, history) };
  });
  type Played = (typeof all)[number];
  const pairs = all.flatMap((x) => all.map((y): [Played, Played] => [x, y]));
  const clash = (x: Played, y: Played) => x.ok !== undefined && y.ok !== undefined && !(x.shared && y.shared);
  const inOrder = (x: Played, y: Played) => clash(x, y) && x.to < y.from && x.revision > y.revision;
  const is = (one: Played, ...fs: readonly string[]) => fs.includes(one.invoke.f);
  const found: string[] = [];
  const at = new Set<string>();
  for (const [x, y] of pairs) {
    if (is(x, 'acquire') && is(y, 'acquire') && inOrder(x, y)) at.add(`token-order ${y.to}`);
    if (is(x, 'claim', 'write') && is(y, 'claim', 'write') && inOrder(x, y)) at.add(`stale-write ${y.to}`);
    if (!is(x, 'acquire') || !is(y, 'acquire') || !clash(x, y) || x.to >= y.to) continue;
    const told = (event: HistoryEvent, place: number) =>
      place > x.to &&
      place < y.to &&
      event.type === 'info' &&
      event.f === 'loss' &&
      event.token === x.ok?.token;
    const lost = history.some((event, place) => told(event, place) && event.process === x.invoke.process);
    if (!lost) at.add(`overlap ${y.to}`);
  }
  const last = all.find(({ invoke }) => invoke.f === 'read')?.ok?.entries ?? [];
  for (const { invoke, ok, end, to } of all) {
    if (invoke.f !== 'write') continue;
    const isThere = last.includes(invoke.entry ?? '');
    if (ok !== undefined && !isThere) found.push(`lost-update ${to}`);
    if (end?.type === 'fail' && isThere) found.push(`applied-after-fail ${to}`);
  }
  return [...found, ...at];
}

function isShared(revision: number, history: History): boolean {
  return (
    revision % 3 === 0 && history.some((event) => event.type === 'ok' && event.token === `${t(revision)}`)
  );
}
