/** The last so many texts that were added, the one that was added longest ago goes first. */
export class Recent {
  readonly #most: number;
  readonly #texts = new Set<string>();

  constructor(most: number) {
    this.#most = most;
  }

  has(text: string): boolean {
    return this.#texts.has(text);
  }

  add(text: string): void {
    this.#texts.delete(text);
    this.#texts.add(text);
    const [oldest] = this.#texts;
    if (this.#texts.size > this.#most && oldest !== undefined) this.#texts.delete(oldest);
  }

  delete(text: string): void {
    this.#texts.delete(text);
  }
}
