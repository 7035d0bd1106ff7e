import { type FencingToken, GuardError } from '@lockkeeper/fencing';
import { type Fetch, fencedFetch } from './fenced-fetch.ts';

/** What an effect sends its requests through, until the run is over. */
export class EffectFetch {
  used = false;
  #over = false;
  readonly fetch: Fetch;

  constructor(token: FencingToken, baseUrl: URL, fetch: Fetch | undefined, signal: AbortSignal | undefined) {
    const observed: Fetch = (input, init) => {
      this.used = true;
      return (fetch ?? globalThis.fetch)(input, init);
    };
    const fenced = fencedFetch(token, { fetch: observed, baseUrl });
    this.fetch = async (input, init) => {
      if (this.#over) throw new GuardError('invalid-option', 'the run of this handle is over', { token });
      return fenced(input, { ...(signal !== undefined && { signal }), ...init });
    };
  }

  end(): void {
    this.#over = true;
  }
}
