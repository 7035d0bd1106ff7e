// An account in etcd, and the module that the drill runs in two processes: read, think, write, under a lock.
import { connect, fencedTxn } from '@lockkeeper/core';

export async function readAccount(keeper) {
  const { kvs } = await keeper.coordinator.range({ key: 'account' });
  return kvs.map(({ value }) => new TextDecoder().decode(value)).join();
}

export async function writeAccount(keeper, value) {
  const put = { op: 'put', key: 'account', value };
  await keeper.coordinator.txn({ compare: [], success: [put], failure: [] });
}

export async function run({ update, data, keeper: options, pausePoint }) {
  const keeper = await connect(options);
  try {
    await keeper.lock('account').using({}, async (hold) => {
      const entries = await readAccount(keeper);
      await pausePoint('after the read');
      const changed = `${entries}${update} `;
      if (data.checked) await fencedTxn(hold).put('account', changed).commit();
      else await writeAccount(keeper, changed);
    });
  } finally {
    await keeper.close();
  }
}
