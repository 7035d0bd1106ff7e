import type { Election, LockkeeperError } from '@lockkeeper/core';
import type { Seat } from './acquire-rules.ts';
import type { Outlook } from './onlooker-rules.ts';
import type { Onlooker } from './plan.ts';
import { electionOf } from './target.ts';
import type { Visiting } from './visits.ts';

/** Follows an election until it has seen enough or the keeper closes, and asks who leads now and then. */
export async function lookOn(
  { election: name, slowMs }: Onlooker,
  who: string,
  seat: Seat,
  visiting: Visiting,
  enough: AbortSignal,
): Promise<void> {
  const { process, checker, around } = visiting;
  const { looking } = checker;
  const random = around.network.randomFor(`${who} on ${seat.connection.name}`);
  const election = electionOf(seat.keeper, name, {});
  const outlook = looking.begun(who, process, name, around.world.now);
  const say = (what: string) => around.trace?.add(process.name, `${what} of election ${name}`);
  try {
    for await (const leader of election.observe({ signal: enough })) {
      say(`is told that ${leader === undefined ? 'nobody' : `"${leader.value}"`} is the leader`);
      looking.told(outlook, leader);
      outlook.busy = true;
      if (random.chance(0.2)) await ask(election, outlook, visiting);
      if (random.chance(0.3)) await process.sleep(random.between(0, slowMs));
      outlook.busy = false;
    }
    if (!enough.aborted && !seat.closing)
      checker.report('ended-early', `${who} is told no more of election ${name}`);
  } catch (error) {
    say(`cannot learn the leader (${(error as LockkeeperError).code})`);
    checker.report('false-error', `${who} observes election ${name}: ${error}`);
  } finally {
    looking.ended(outlook);
  }
}

async function ask(election: Election, { who, history }: Outlook, { checker }: Visiting): Promise<void> {
  const since = history.latest;
  try {
    checker.looking.answered(who, history, since, await election.leader());
  } catch (error) {
    const { code } = error as LockkeeperError;
    if (code !== 'unreachable' && code !== 'limit-exceeded' && code !== 'closed')
      checker.report('false-error', `${who} asks for the leader of ${election.name}: ${error}`);
  }
}
