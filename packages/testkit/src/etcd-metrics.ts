import { getText } from './get-json.ts';

/**
 * What an etcd member counts: the sum of a metric's series whose labels contain all of `labels`; 0 where there
 * is none.
 *
 * ```ts
 * await etcdMetric(etcd.endpoint, 'grpc_server_handled_total', 'grpc_method="Txn"', 'grpc_code="OK"');
 * ```
 * @param endpoint of `http`.
 */
export async function etcdMetric(
  endpoint: string,
  name: string,
  ...labels: readonly string[]
): Promise<number> {
  const lines = (await getText(`${endpoint}/metrics`)).split('\n');
  const series = lines.filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `));
  const chosen = series.filter((line) => labels.every((label) => line.includes(label)));
  return chosen.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
}
