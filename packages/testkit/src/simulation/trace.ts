import type { World } from './world.ts';

interface Line {
  readonly at: number;
  readonly who: string;
  readonly what: string;
}

/**
 * What happened, for people: time, who, what. Random ids are replaced by short names in the order in which
 * they appear, so that two runs of one seed give the same text.
 */
export class Trace {
  readonly #world: World;
  readonly #lines: Line[] = [];
  readonly #names = new Map<string, string>();
  #leases = 0;
  #acquisitions = 0;

  constructor(world: World) {
    this.#world = world;
  }

  add(who: string, what: string): void {
    this.#lines.push({ at: this.#world.now, who, what });
  }

  lease(lease: bigint): string {
    return this.#alias(lease.toString(16), () => {
      this.#leases += 1;
      return `L${this.#leases}`;
    });
  }

  acquisition(id: string | undefined): string {
    if (id === undefined) return 'a stranger';
    return this.#alias(id, () => {
      this.#acquisitions += 1;
      return `a${this.#acquisitions}`;
    });
  }

  /** Of a queue: `lock/red/L1.2`. */
  key(key: string): string {
    const [root, kind, ...segments] = key.split('/');
    if (root !== 'lockkeeper' || kind === undefined) return key;
    if (kind === 'cancelled' || kind === 'requests') return `${kind}/${this.acquisition(segments[0])}`;
    if (segments.at(-2) === 'slots') return [kind, ...segments].join('/');
    const contender = segments.pop() ?? '';
    const [lease = '', slot] = contender.split('.');
    if (segments.length === 0 || !/^[0-9a-f]+$/.test(lease)) return key;
    const short = `${this.lease(BigInt(`0x${lease}`))}${slot === undefined ? '' : `.${slot}`}`;
    return [kind, ...segments, short].join('/');
  }

  toLines(): string[] {
    const widest = Math.max(0, ...this.#lines.map(({ who }) => who.length));
    return this.#lines.map(({ at, who, what }) => {
      const time = (at / 1_000).toFixed(4).padStart(9);
      return `${time} s  ${who.padEnd(widest)}  ${what}`;
    });
  }

  #alias(id: string, make: () => string): string {
    const known = this.#names.get(id);
    if (known !== undefined) return known;
    const alias = make();
    this.#names.set(id, alias);
    return alias;
  }
}
