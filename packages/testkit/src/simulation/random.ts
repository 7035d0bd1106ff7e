/**
 * A seeded generator (sfc32): the same seed gives the same numbers on every machine. `fork` gives a
 * generator that depends on the seed and the label alone, not on how many numbers were drawn before: so a
 * change in one corner of a simulation leaves the chances of all others as they were.
 */
export class Random {
  readonly #seed: string;
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;

  constructor(seed: string) {
    this.#seed = seed;
    [this.#a, this.#b, this.#c] = hashOf(seed);
    for (let round = 0; round < 12; round += 1) this.next();
  }

  fork(label: string | number): Random {
    return new Random(`${this.#seed}/${label}`);
  }

  /** From 0 (included) to 1 (excluded). */
  next(): number {
    const sum = (this.#a + this.#b + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (this.#c << 21) | (this.#c >>> 11);
    this.#c = (this.#c + sum) | 0;
    return (sum >>> 0) / 2 ** 32;
  }

  between(low: number, high: number): number {
    return low + this.next() * (high - low);
  }

  /** A whole number, both ends included. */
  whole(low: number, high: number): number {
    return Math.floor(this.between(low, high + 1));
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(choices: readonly [T, ...T[]]): T {
    return choices[this.whole(0, choices.length - 1)] ?? choices[0];
  }

  /** Mostly near `low`, seldom near `high`. */
  skewed(low: number, high: number): number {
    return low + this.next() ** 3 * (high - low);
  }
}

/** FNV-1a over the text, continued to three words. */
function hashOf(text: string): [number, number, number] {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  const words: number[] = [];
  for (let word = 0; word < 3; word += 1) {
    hash = Math.imul(hash ^ (hash >>> 16) ^ word, 0x85ebca6b);
    hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
    words.push(hash ^ (hash >>> 16));
  }
  return words as [number, number, number];
}
