// The book of one scene: every entry, what its writer was told of it, and what the text showed at which moment.
// The verdict follows from the book alone.
import type { Told } from './scene.ts';

export interface Counts {
  /** Entries that were acknowledged, and are not in the text at the end. */
  readonly lost: number;
  /** Entries of the old owner that came into the text after the new one had taken over. */
  readonly staleAccepted: number;
  readonly rejected: number;
  readonly unknown: number;
}

export interface Verdict extends Counts {
  /** Whatever else must not be: a writer that was told the wrong thing. */
  readonly faults: readonly string[];
}

interface Entry {
  readonly name: string;
  readonly owner: 'a' | 'b';
  told: Told | undefined;
  /** Acknowledged before a copy was put back that cannot have it. */
  undone: boolean;
}

export class Ledger {
  readonly #entries: Entry[] = [];
  readonly #seen = new Set<string>();
  readonly #faults: string[] = [];
  #atTakeover: string | undefined;
  #atCopy: ReadonlySet<Entry> = new Set();
  #refusedClaims = 0;

  /** A name that is in no other text. */
  enter(owner: 'a' | 'b'): string {
    const name = `${owner}${this.#entries.length + 1}-${crypto.randomUUID().slice(0, 8)} `;
    this.#entries.push({ name, owner, told: undefined, undone: false });
    return name;
  }

  note(name: string, told: Told): void {
    const entry = this.#entries.find((each) => each.name === name);
    if (entry !== undefined) entry.told = told;
  }

  noteRefusedClaim(): void {
    this.#refusedClaims += 1;
  }

  /** From here on nothing of the old owner may come into the text. The first look counts. */
  takenOver(text: string): void {
    this.see(text);
    this.#atTakeover ??= text;
  }

  /** A look at the text: what was there once, was applied. */
  see(text: string): void {
    for (const { name } of this.#entries) if (text.includes(name)) this.#seen.add(name);
  }

  /** Somebody keeps a copy of the storage. */
  copied(): void {
    this.#atCopy = new Set(this.#entries);
  }

  /** That copy was put back: what came after it is gone, whatever a guard does, and the story begins anew. */
  putBack(): void {
    for (const entry of this.#entries) entry.undone = !this.#atCopy.has(entry);
    this.#atTakeover = undefined;
  }

  fault(what: string): void {
    this.#faults.push(what);
  }

  close(text: string): Verdict {
    this.see(text);
    const counted = this.#entries.filter(({ undone }) => !undone);
    const count = (of: (entry: Entry) => boolean) => counted.filter(of).length;
    const wasApplied = ({ name }: Entry) => this.#seen.has(name);
    const late = ({ name }: Entry) => this.#atTakeover !== undefined && !this.#atTakeover.includes(name);
    for (const entry of counted) {
      const { name, told } = entry;
      if (told === undefined) this.fault(`nobody was told what became of ${name}`);
      if ((told === 'rejected' || told === 'failed') && wasApplied(entry))
        this.fault(`${name}was applied, but its writer was told: ${told}`);
    }
    if (this.#atTakeover === undefined) this.fault('nobody took over');
    return {
      lost: count(({ name, told }) => told === 'applied' && !text.includes(name)),
      staleAccepted: count((entry) => entry.owner === 'a' && wasApplied(entry) && late(entry)),
      rejected: this.#entries.filter(({ told }) => told === 'rejected').length + this.#refusedClaims,
      unknown: count(({ told }) => told === 'unknown'),
      faults: this.#faults,
    };
  }
}
