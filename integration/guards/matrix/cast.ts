// What the owners of a scene do, written into the ledger: the words that the pause points are told in.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Ledger } from './ledger.ts';
import type { Owner, Pauses, Scene, Told } from './scene.ts';

/** How often somebody tries again what failed without having been refused: connections that come back. */
const TRIES = 100;
const BETWEEN_TRIES_MS = 50;

export class Cast {
  readonly scene: Scene;
  readonly ledger: Ledger;
  /** How long the old owner stays away where the new one has to wait for it; else until that one has written. */
  readonly patienceMs: number;

  constructor(scene: Scene, ledger: Ledger, patienceMs: number) {
    this.scene = scene;
    this.ledger = ledger;
    this.patienceMs = patienceMs;
  }

  /** The old owner begins as it should: it has the lock, it has claimed. */
  async begin(): Promise<void> {
    await this.scene.a.grant();
    await this.scene.a.claim();
  }

  /** The new owner gets the lock, claims, and appends. */
  async takeOver(): Promise<void> {
    const { b } = this.scene;
    await this.#again('the new owner could not take over', b, async () => {
      await b.grant();
      await b.claim();
    });
    this.ledger.takenOver(await this.scene.peek());
    await this.append('b');
  }

  /** One append, tried again until it was applied, or refused. */
  async append(who: 'a' | 'b', pauses: Pauses = {}): Promise<Told> {
    for (let tries = 1; ; tries += 1) {
      const entry = this.ledger.enter(who);
      const told = await this.write(entry, () =>
        this.scene[who].rewrite((text) => text + entry, tries === 1 ? pauses : {}),
      );
      if (told === 'applied' || told === 'rejected') return told;
      if (tries === TRIES) throw new Error(`${who} got no answer in ${tries} tries`);
      await sleep(BETWEEN_TRIES_MS);
    }
  }

  /** The old owner overwrites with `text`, which it read long ago, and an entry; tried again likewise. */
  async writeLate(text: string): Promise<Told> {
    for (let tries = 1; ; tries += 1) {
      const entry = this.ledger.enter('a');
      const told = await this.write(entry, () => this.scene.a.overwrite(text + entry));
      if (told === 'applied' || told === 'rejected') return told;
      if (tries === TRIES) throw new Error(`a got no answer in ${tries} tries`);
      await sleep(BETWEEN_TRIES_MS);
    }
  }

  /** The old owner claims late. */
  async claimLate(): Promise<void> {
    try {
      await this.scene.a.claim();
    } catch (error) {
      if (this.scene.a.told(error) !== 'rejected') throw error;
      this.ledger.noteRefusedClaim();
    }
  }

  /** One write of `entry`, and what its writer is told. */
  async write(entry: string, act: () => Promise<void>): Promise<Told> {
    let told: Told = 'applied';
    try {
      await act();
    } catch (error) {
      told = this.scene[entry.startsWith('a') ? 'a' : 'b'].told(error);
    }
    this.ledger.note(entry, told);
    this.ledger.see(await this.scene.peek());
    return told;
  }

  /** Waits for the new owner, unless it waits for the old one. */
  async whilePatient(takingOver: Promise<void>): Promise<void> {
    const over = new AbortController();
    const limit = sleep(this.patienceMs, undefined, { signal: over.signal }).catch(() => undefined);
    await Promise.race([takingOver, limit]).finally(() => over.abort());
  }

  async #again(what: string, owner: Owner, act: () => Promise<void>): Promise<void> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await act();
      } catch (error) {
        if (owner.told(error) === 'rejected' || tries === TRIES) throw new Error(what, { cause: error });
        await sleep(BETWEEN_TRIES_MS);
      }
    }
  }
}
