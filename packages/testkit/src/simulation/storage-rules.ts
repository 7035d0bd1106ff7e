import { type FencingToken, GuardError } from '@lockkeeper/fencing';
import type { DataWrite, Grant } from './observer.ts';
import type { GuardedWrite, Resource } from './storage.ts';

/** The value of a key that is written under `hold.compare()`. */
export interface EtcdValue {
  readonly by: string;
  /** The keys and the token of the hold. */
  readonly keys: readonly string[];
  readonly token: string;
  /** The ModRevision of the value that was read before; 0: there was none. */
  readonly saw: string;
}

interface Promises {
  claimed: bigint;
  readonly sealed: Set<string>;
}

/** What guards promised, and that no write broke a promise or was lost. */
export class StorageRules {
  readonly #report: (kind: string, message: string) => void;
  readonly #promises = new Map<string, Promises>();
  readonly #denied = new Set<string>();
  readonly #etcdValues = new Map<string, { readonly by: string; readonly revision: bigint }>();

  constructor(report: (kind: string, message: string) => void) {
    this.#report = report;
  }

  claimed(resource: string, { revision }: FencingToken): void {
    const promises = this.#of(resource);
    if (revision > promises.claimed) promises.claimed = revision;
  }

  sealed(resource: string, { revision, acquisition }: FencingToken): void {
    const promises = this.#of(resource);
    promises.sealed.add(acquisition);
    if (revision > promises.claimed) promises.claimed = revision;
  }

  mustBeClaimed(resource: string, { revision }: FencingToken): void {
    if (this.#of(resource).claimed >= revision) return;
    this.#report(
      'not-claimed',
      `${resource}: granted with token ${revision}, but the guard has not promised`,
    );
  }

  mustBeSealed(resource: string, { revision, acquisition }: FencingToken): void {
    const promises = this.#of(resource);
    if (promises.sealed.has(acquisition) || promises.claimed > revision) return;
    this.#report(
      'not-sealed',
      `${resource}: told sealed for token ${revision}, but the guard has not promised`,
    );
  }

  /** A guarded write takes effect. */
  wrote(resource: Resource, { id, token, saw }: GuardedWrite): void {
    const { claimed, sealed } = this.#of(resource.name);
    if (token.revision < claimed) {
      this.#report(
        'stale-write',
        `${resource.name}: write ${id} under token ${token.revision} took effect after ${claimed} was claimed`,
      );
    }
    if (sealed.has(token.acquisition)) {
      this.#report(
        'sealed-write',
        `${resource.name}: write ${id} took effect after its token ${token.revision} was sealed`,
      );
    }
    if (resource.version !== saw && resource.lastWriter !== token.acquisition) {
      this.#report(
        'lost-update',
        `${resource.name}: write ${id} rests on version ${saw} and overwrote version ${resource.version} of another holder`,
      );
    }
    if (this.#denied.has(`${resource.name} ${id}`))
      this.#report('false-denial', `${resource.name}: write ${id} was told refused`);
  }

  /** A guarded write was answered. */
  answered(resource: Resource, id: string, error: unknown): void {
    const applied = resource.writes.has(id);
    if (error === undefined) {
      if (!applied)
        this.#report('lost-write', `${resource.name}: write ${id} was acknowledged, but never took effect`);
      return;
    }
    if (!(error instanceof GuardError)) {
      this.#report('false-error', `${resource.name}: write ${id} failed with ${error}`);
    } else if (error.outcome !== 'unknown') {
      this.#denied.add(`${resource.name} ${id}`);
      if (applied) this.#report('false-denial', `${resource.name}: write ${id} was told ${error.code}`);
    }
  }

  /** A write under `hold.compare()` takes effect in etcd. */
  wroteToEtcd({ key, revision, value }: DataWrite, passesFence: (grant: Grant) => boolean): void {
    const write = JSON.parse(value) as EtcdValue;
    const before = this.#etcdValues.get(key);
    this.#etcdValues.set(key, { by: write.by, revision });
    if (!passesFence({ keys: write.keys, token: BigInt(write.token) })) {
      this.#report('stale-write', `${key}: written under token ${write.token}, whose key was gone`);
    }
    if (before !== undefined && before.by !== write.by && String(before.revision) !== write.saw) {
      this.#report(
        'lost-update',
        `${key}: overwrote revision ${before.revision}, which its writer had not seen`,
      );
    }
  }

  #of(resource: string): Promises {
    const known = this.#promises.get(resource);
    if (known !== undefined) return known;
    const promises = { claimed: 0n, sealed: new Set<string>() };
    this.#promises.set(resource, promises);
    return promises;
  }
}
