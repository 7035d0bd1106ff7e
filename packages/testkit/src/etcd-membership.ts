// What members of a cluster are asked, whatever they run in: who leads, and to take somebody in.
import { setTimeout as sleep } from 'node:timers/promises';
import { TestkitError } from './errors.ts';
import type { EtcdCtl } from './etcd-ctl.ts';
import { getText } from './get-json.ts';

const WITHIN_MS = 20_000;

/**
 * The index of the one that leads, once exactly one says so.
 * @param endpointsOfRunning in order, `undefined` for a member that does not run; asked anew each time
 * @throws {@link TestkitError} `timeout`
 */
export async function findLeader(endpointsOfRunning: () => readonly (string | undefined)[]): Promise<number> {
  const deadline = performance.now() + WITHIN_MS;
  for (;;) {
    const said = await Promise.all(
      endpointsOfRunning().map((endpoint) => endpoint !== undefined && saysItLeads(endpoint)),
    );
    const leaders = said.filter(Boolean).length;
    if (leaders === 1) return said.indexOf(true);
    if (performance.now() > deadline) {
      const why = `${leaders} of ${said.length} members say that they lead`;
      throw new TestkitError('timeout', `no leader within ${WITHIN_MS} ms: ${why}`);
    }
    await sleep(50);
  }
}

async function saysItLeads(endpoint: string): Promise<boolean> {
  try {
    return /^etcd_server_is_leader 1$/m.test(await getText(`${endpoint}/metrics`, 1_000));
  } catch {
    // Paused, or starting: whoever leads answers.
    return false;
  }
}

/**
 * Replaces a member that lost its data: it must not come back under its old id, since it would vote twice.
 * @param ctl that of the others
 */
export async function replaceMember(ctl: EtcdCtl, name: string, peerUrl: string): Promise<void> {
  const list = await whileYoung(ctl, ['member', 'list']);
  const fields = list.split('\n').map((line) => line.split(', '));
  const id = fields.find((each) => each[2] === name)?.[0];
  if (id !== undefined) await whileYoung(ctl, ['member', 'remove', id]);
  await whileYoung(ctl, ['member', 'add', name, `--peer-urls=${peerUrl}`]);
}

/** Members refuse a change while their links are young, so it is asked again. */
async function whileYoung({ ctl }: EtcdCtl, args: readonly string[]): Promise<string> {
  const deadline = performance.now() + WITHIN_MS;
  for (;;) {
    try {
      return await ctl(args);
    } catch (error) {
      const young = error instanceof TestkitError && /unhealthy cluster|leader/.test(error.message);
      if (!young || performance.now() > deadline) throw error;
      await sleep(200);
    }
  }
}
