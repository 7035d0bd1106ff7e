import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { TelemetryEvents } from '@lockkeeper/core';
import type { SimulatedEtcd } from './etcd.ts';

type Lost = TelemetryEvents['lockkeeper:session:lost'];

const LOST = 'lockkeeper:session:lost';

/** What keepers tell of the ends of their sessions, against what is true of the leases. */
export class SessionRules {
  readonly #etcd: SimulatedEtcd;
  readonly #report: (kind: string, message: string) => void;
  readonly #onLost = (event: unknown): void => this.#lost(event as Lost);

  constructor(etcd: SimulatedEtcd, report: (kind: string, message: string) => void) {
    this.#etcd = etcd;
    this.#report = report;
  }

  /** Only one world at a time can listen: the channels are those of this whole process. */
  listen(): Disposable {
    subscribe(LOST, this.#onLost);
    return { [Symbol.dispose]: () => void unsubscribe(LOST, this.#onLost) };
  }

  #lost({ session, cause }: Lost): void {
    const lease = BigInt(`0x${session}`);
    if ((cause !== 'revoked' && cause !== 'expired') || !this.#etcd.isAlive(lease)) return;
    const owner = this.#etcd.leases.get(lease);
    this.#report('false-session-loss', `${owner}: a session is told ${cause}, but etcd has its lease`);
  }
}
