import type { Attempt, Endpoint } from './endpoint.ts';
import { AUTHENTICATION_IS_OFF } from './failure.ts';

export type Token = string | undefined;

const NO_TOKEN: Attempt<Token> = { ok: true, value: undefined };

/**
 * The tokens of one user, one for each member, since a member forgets a token it has not seen for a while.
 * Calls that need the same token share one login; a failed login is not remembered.
 */
export class Login {
  readonly #auth: { readonly username: string; readonly password: string };
  readonly #limitMs: number;
  readonly #byEndpoint = new Map<Endpoint, Promise<Attempt<Token>>>();

  constructor(auth: { readonly username: string; readonly password: string }, limitMs: number) {
    this.#auth = auth;
    this.#limitMs = limitMs;
  }

  token(endpoint: Endpoint): Promise<Attempt<Token>> {
    const known = this.#byEndpoint.get(endpoint);
    if (known !== undefined) return known;
    const login = this.#logIn(endpoint);
    this.#byEndpoint.set(endpoint, login);
    const forget = () => {
      if (this.#byEndpoint.get(endpoint) === login) this.#byEndpoint.delete(endpoint);
    };
    login.then((result) => {
      if (!result.ok) forget();
    }, forget);
    return login;
  }

  /** Of many calls that were refused with one token only the first makes the next one log in anew. */
  async forget(endpoint: Endpoint, refused: Token): Promise<void> {
    const login = this.#byEndpoint.get(endpoint);
    const result = await login;
    if (result?.ok && result.value === refused && this.#byEndpoint.get(endpoint) === login) {
      this.#byEndpoint.delete(endpoint);
    }
  }

  async #logIn(endpoint: Endpoint): Promise<Attempt<Token>> {
    const { username: name, password } = this.#auth;
    const result = await endpoint.attempt('login', { limitMs: this.#limitMs }, {}, ({ auth }, options) =>
      auth.authenticate({ name, password }, options),
    );
    if (result.ok) return { ok: true, value: result.value.token };
    const { failure } = result;
    // A cluster may be prepared for a user before its authentication is switched on.
    if (failure.said === AUTHENTICATION_IS_OFF) return NO_TOKEN;
    return { ok: false, failure: failure.kind === 'refused' ? failure : { ...failure, kind: 'unsent' } };
  }
}
