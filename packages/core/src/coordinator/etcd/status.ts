import type { CallOptions } from '@grpc/grpc-js';
import type { Etcd3 } from 'etcd3';

/** The member's own word for what it is: `etcd 3.5.30`. */
export async function describeMember({ maintenance }: Etcd3, options: CallOptions): Promise<string> {
  const { version } = await maintenance.status(options);
  return `etcd ${version}`;
}

/** Later versions tell theirs only to users with the role `root`, where authentication is on. */
export const ANONYMOUS = 'etcd of a version it does not tell';
