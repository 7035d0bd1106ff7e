// The story as a newcomer reads it, from the heading to the table.
import { OPENING } from './account.ts';
import { type Act, type Audience, ENTRY_OF_A, ENTRY_OF_B, type PlayedAct, type PlayedRun } from './acts.ts';
import type { Page } from './page.ts';
import type { StoryEvent } from './story.ts';
import { seconds, tell, theStorage } from './telling.ts';
import type { SavedTimeline } from './timeline.ts';
import { totalOf } from './verdict.ts';
import type { World } from './world.ts';

export class Narrator implements Audience {
  readonly #page: Page;
  readonly #world: World;
  #before: StoryEvent[] = [];

  constructor(page: Page, world: World) {
    this.#page = page;
    this.#world = world;
  }

  begin(): void {
    const { simulated, coordinator, storage, ttlMs, cast } = this.#world;
    const page = this.#page;
    if (simulated) page.heading('SIMULATED: no server and no second process takes part in this');
    page.heading('A late write, without a guard and with one');
    const where = simulated ? 'In memory' : `On ${coordinator} and ${storage}`;
    page.line(`${where}, with leases of ${ttlMs / 1_000} s. ${cast}`);
    page.line('Under one lock each of them reads the balance of an account, adds to it and writes it back.');
    page.line(
      `It starts at ${OPENING.balance}; A adds ${ENTRY_OF_A.amount} and B adds ${ENTRY_OF_B.amount}.`,
    );
    page.line(
      'Each grant of the lock has a token, a number that only grows. The guard is in the storage: it',
    );
    page.line('checks the token with each write, and refuses the write if it has been shown a newer token.');
    page.line('Times are in seconds since the run began.');
  }

  actBegins(act: Act, number: number): void {
    this.#page.line();
    this.#page.heading(`Act ${number}: ${act.title}`);
  }

  runBegins(guarded: boolean): void {
    this.#before = [];
    this.#page.line();
    this.#page.line(guarded ? 'With the guard' : 'Without a guard');
    this.#page.columns('time', 'who', 'what');
  }

  happened(events: readonly StoryEvent[]): void {
    for (const event of events) {
      const { names, simulated } = this.#world;
      const line = tell(event, { names, simulated, before: this.#before });
      this.#page.columns(seconds(event.atMs, 3), line.who, line.what, line.tone);
      this.#before.push(event);
    }
  }

  runEnded(run: PlayedRun): void {
    const { acknowledged, expectedBalance, foundBalance, lostUpdates } = run;
    const verdict = lostUpdates === 0 ? 'nothing is lost' : `${lostUpdates} of them lost`;
    this.#page.columns(
      '',
      'result',
      `${acknowledged} entries acknowledged, the balance should be ${expectedBalance} and is ${foundBalance}: ${verdict}`,
      lostUpdates === 0 ? 'refused' : 'harm',
    );
  }

  end(acts: readonly PlayedAct[], { page: file, picture }: SavedTimeline): void {
    const page = this.#page;
    page.line();
    for (const line of explanation(this.#world, acts)) page.line(line);
    page.line();
    for (const row of table(acts)) page.line(row);
    page.line();
    page.line(`The same to look at in a browser: ${file} (or as a picture: ${picture})`);
  }

  falseShow(reasons: readonly string[]): void {
    this.#page.line();
    this.#page.heading('The demo did not show what it should:');
    for (const reason of reasons) this.#page.line(`- ${reason}`);
  }
}

function explanation(world: World, acts: readonly PlayedAct[]): readonly string[] {
  return [
    'What this shows',
    '  In act 1 A asked whether it still held the lock, rightly heard yes, and was stopped before it could',
    `  write. In act 2 A was awake and learned ${whenALearned(acts)},`,
    '  but its write had left. Either way the end of the lease let B go on; it neither stopped A nor recalled',
    `  the write. What refuses it is the guard: ${theStorage(world)} checks the token together with the write.`,
    'Where it ends',
    '  The guard protects writes that go through it, to this storage: no mail, no call to another service. It',
    '  knows an old token only by a newer one, so B claims before it reads; until then A may still write, and',
    '  B then reads what A wrote. It orders holders, not the repeated requests of one holder. A refused writer',
    '  has to start over, as A does here.',
    '  Act 2 holds the first packet of the write. Had a part of its transaction been carried out already,',
    "  B's claim would wait for its end, which the guard's timeouts bound.",
    ...(world.simulated
      ? ['  This was a simulation with one clock: it shows the order of steps, no real pause and no network.']
      : ['  One etcd member and one PostgreSQL on one machine say nothing about the loss of either.']),
  ];
}

/** As it went in the guarded run of the act in which A was awake. */
function whenALearned(acts: readonly PlayedAct[]): string {
  const events = acts.find(({ act }) => act.hindrance === 'outage')?.guarded.events ?? [];
  const lost = events.find(({ who, kind }) => who === 'A' && kind === 'lost');
  const next = events.find(({ who, kind }) => who === 'B' && kind === 'acquired');
  if (lost === undefined || next === undefined) return 'nothing of its loss';
  const ahead = next.atMs - lost.atMs;
  return ahead > 0
    ? `that the lock was lost ${seconds(ahead, 1)} s before B had it`
    : `only ${seconds(-ahead, 1)} s after B had the lock that it was lost`;
}

function table(acts: readonly PlayedAct[]): readonly string[] {
  const unguarded = totalOf(acts.map((act) => act.unguarded));
  const guarded = totalOf(acts.map((act) => act.guarded));
  const row = (label: string, left: unknown, right: unknown) =>
    `  ${label.padEnd(22)}${`${left}`.padStart(16)}${`${right}`.padStart(20)}`;
  const refusals = guarded.rejectedWith === undefined ? '' : ` (${guarded.rejectedWith})`;
  return [
    row('both acts', 'without a guard', 'with the guard'),
    row('acknowledged entries', unguarded.acknowledged, guarded.acknowledged),
    row('balance expected', unguarded.expectedBalance, guarded.expectedBalance),
    row('balance found', unguarded.foundBalance, guarded.foundBalance),
    row('lost updates', unguarded.lostUpdates, guarded.lostUpdates),
    row('rejected writes', unguarded.rejected, `${guarded.rejected}${refusals}`),
  ];
}
