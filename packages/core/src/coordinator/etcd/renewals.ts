import type { CallOptions } from '@grpc/grpc-js';
import type { Etcd3, ILeaseKeepAliveResponse } from 'etcd3';

/**
 * One renewal is a short stream of its own: one request, one reply, the end. So no stream can be left
 * behind that looks alive while its member is not.
 */
export async function renewOnce(
  client: Etcd3,
  lease: bigint,
  options: CallOptions,
): Promise<ILeaseKeepAliveResponse> {
  const id = String(lease);
  const stream = await client.leaseClient.leaseKeepAlive(options);
  return new Promise((resolve, reject) => {
    stream.on('data', (reply) => {
      if (reply.ID !== id) return;
      resolve(reply);
      stream.end();
    });
    stream.on('end', () => reject(new Error('the stream ended without a reply')));
    stream.on('error', reject);
    stream.write({ ID: id });
  });
}
