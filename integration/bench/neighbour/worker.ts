// One client in a process of its own: one that acquires and releases many locks at once, or one that puts a key.
import { connect } from '@lockkeeper/core';
import { Etcd3 } from 'etcd3';
import { answerLines } from '../line-process.ts';
import { type Contestant, inPairs, TTL_MS } from '../throughput/contestant.ts';

export interface Order {
  readonly inFlight: number;
  readonly ms: number;
}

const locks = async (hosts: string, groupCommit: boolean) => {
  const keeper = await connect({ hosts, ttlMs: TTL_MS, groupCommit });
  return inPairs(async (worker) => {
    const hold = await keeper.lock(`name-${worker}`).acquire();
    await hold.release();
  });
};

const CLIENTS = {
  batched: (hosts: string) => locks(hosts, true),
  unbatched: (hosts: string) => locks(hosts, false),
  neighbour: async (hosts: string) => {
    const client = new Etcd3({ hosts });
    return inPairs(() => client.put('neighbour').value('x').exec());
  },
} as const satisfies Readonly<Record<string, (hosts: string) => Promise<Contestant['run']>>>;

export type ClientName = keyof typeof CLIENTS;

const [name, endpoint = ''] = process.argv.slice(2);
const run = await CLIENTS[name as ClientName](endpoint);
await answerLines(({ inFlight, ms }: Order) => run(inFlight, ms));
// What it has ends with its etcd.
process.exit();
