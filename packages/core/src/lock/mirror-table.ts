/** The mirrors of a keeper: one for each of what is mirrored, for as long as somebody needs it. */
export class MirrorTable<Mirror> {
  readonly #mirrors = new Map<string, Mirror>();

  get(key: string): Mirror | undefined {
    return this.#mirrors.get(key);
  }

  /** The one that stands, or a new one, which says when it is over. */
  of(key: string, make: (onOver: () => void) => Mirror): Mirror {
    const standing = this.#mirrors.get(key);
    if (standing !== undefined) return standing;
    const mirror = make(() => this.#mirrors.delete(key));
    this.#mirrors.set(key, mirror);
    return mirror;
  }
}
