import { type FencingToken, GuardError } from '@lockkeeper/fencing';
import type { DataWrite, Grant } from './observer.ts';
import type { GuardedWrite, Resource } from './storage.ts';

/** The value of a key that is written under `hold.compare()`. */
export interface EtcdValue {
  readonly by: string;
  /** The keys of the hold, each as it was created for it, and its token. */
  readonly keys: readonly string[];
  readonly token: string;
  /** The ModRevision of the value that was read before; 0: there was none. */
  readonly saw: string;
}

interface Promises {
  /** The highest revision that a writer claimed, and that a reader did. */
  writer: bigint;
  reader: bigint;
  /** The highest revision that a writer came with, promised or not. */
  presented: bigint;
  /** Tokens, as text. */
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

  presented(resource: string, { revision }: FencingToken, reads: boolean): void {
    const promises = this.#of(resource);
    if (!reads && revision > promises.presented) promises.presented = revision;
  }

  /** @param reads - whether it is a reader's, whatever the token says. */
  claimed(resource: string, { revision }: FencingToken, reads: boolean): void {
    const promises = this.#of(resource);
    const mark = reads ? 'reader' : 'writer';
    if (revision > promises[mark]) promises[mark] = revision;
  }

  sealed(resource: string, token: FencingToken, reads: boolean): void {
    this.#of(resource).sealed.add(String(token));
    this.claimed(resource, token, reads);
  }

  mustBeClaimed(resource: string, { revision }: FencingToken, reads: boolean): void {
    if (this.#of(resource)[reads ? 'reader' : 'writer'] >= revision) return;
    this.#report(
      'not-claimed',
      `${resource}: granted with token ${revision}, but the guard has not promised`,
    );
  }

  mustBeSealed(resource: string, token: FencingToken): void {
    const { sealed, writer, reader } = this.#of(resource);
    if (sealed.has(String(token)) || writer > token.revision || reader > token.revision) return;
    this.#report('not-sealed', `${resource}: told sealed for token ${token}, but the guard has not promised`);
  }

  /** A guarded read takes effect. */
  read(resource: string, token: FencingToken): void {
    const { writer, reader, sealed } = this.#of(resource);
    if (token.revision < writer)
      this.#report('stale-read', `${resource}: read under token ${token} after ${writer} was claimed`);
    // Older readers' seals are forgotten: readers do not fence each other.
    if (sealed.has(String(token)) && token.revision === reader)
      this.#report('sealed-read', `${resource}: read under token ${token} after it was sealed`);
  }

  /** A guard calls a reader's token stale: then a newer writer was there, as readers do not fence each other. */
  stale(resource: string, { revision }: FencingToken, reads: boolean): void {
    const { presented } = this.#of(resource);
    if (!reads || presented > revision) return;
    this.#report(
      'fenced-by-reader',
      `${resource}: a reader's token ${revision} is refused, but ${presented} is the newest writer's`,
    );
  }

  /** A guarded write takes effect. */
  wrote(resource: Resource, { id, token, saw }: GuardedWrite): void {
    const { writer, reader, sealed } = this.#of(resource.name);
    if (token.revision < writer || token.revision <= reader) {
      const by = token.revision < writer ? `writer ${writer}` : `reader ${reader}`;
      this.#report(
        'stale-write',
        `${resource.name}: write ${id} under token ${token.revision} took effect after ${by} had claimed`,
      );
    }
    if (sealed.has(String(token))) {
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
    if (!passesFence(write)) {
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
    const promises = { writer: 0n, reader: 0n, presented: 0n, sealed: new Set<string>() };
    this.#promises.set(resource, promises);
    return promises;
  }
}
