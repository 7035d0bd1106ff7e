import type { Clock } from '../../clock.ts';
import { LockkeeperError } from '../../errors.ts';
import type { Attempt, Endpoint } from './endpoint.ts';
import { AUTHENTICATION_IS_OFF, type Failure, toError } from './failure.ts';
import type { EtcdAuth } from './options.ts';

export type Token = string | undefined;

const NO_TOKEN: Attempt<Token> = { ok: true, value: undefined };

/**
 * How long a password that etcd refused is not shown to it again. Checking one keeps a core of etcd busy for a
 * tenth of a second, and a process with many locks would have it do nothing else.
 */
const REFUSAL_STANDS_MS = 1_000;

interface Refusal {
  readonly password: string;
  readonly failure: Failure;
  readonly error: LockkeeperError;
  readonly until: number;
}

/**
 * The tokens of one user, one for each member, since a member forgets a token it has not seen for a while.
 * Calls that need the same token share one login. One that failed is not remembered, but for a moment where
 * etcd refused the password.
 */
export class Login {
  readonly #auth: EtcdAuth;
  readonly #clock: Clock;
  readonly #limitMs: number;
  readonly #byEndpoint = new Map<Endpoint, Promise<Attempt<Token>>>();
  #refusal: Refusal | undefined;

  constructor(auth: EtcdAuth, clock: Clock, limitMs: number) {
    this.#auth = auth;
    this.#clock = clock;
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
    const name = this.#auth.username;
    let password = '';
    const result = await endpoint.attempt(
      'login',
      { limitMs: this.#limitMs },
      {},
      async ({ auth }, options) => {
        password = await this.#password();
        this.#throwIfRefused(password);
        return auth.authenticate({ name, password }, options);
      },
    );
    if (result.ok) return { ok: true, value: result.value.token };
    return this.#failed(result.failure, password);
  }

  #throwIfRefused(password: string): void {
    const refusal = this.#refusal;
    if (refusal?.password === password && this.#clock.now() < refusal.until) throw refusal.error;
  }

  #failed(failure: Failure, password: string): Attempt<Token> {
    // A cluster may be prepared for a user before its authentication is switched on.
    if (failure.said === AUTHENTICATION_IS_OFF) return NO_TOKEN;
    const { cause } = failure;
    if (failure.kind === 'refused') {
      const until = this.#clock.now() + REFUSAL_STANDS_MS;
      this.#refusal = { password, failure, error: toError(failure), until };
      return { ok: false, failure };
    }
    if (this.#refusal !== undefined && cause === this.#refusal.error)
      return { ok: false, failure: this.#refusal.failure };
    if (cause instanceof LockkeeperError)
      return { ok: false, failure: { ...failure, kind: 'refused', code: cause.code } };
    return { ok: false, failure: { ...failure, kind: 'unsent' } };
  }

  async #password(): Promise<string> {
    const { password } = this.#auth;
    if (typeof password === 'string') return password;
    let given: unknown;
    try {
      given = await password();
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      throw new LockkeeperError('unauthenticated', `auth.password() failed: ${why}`, { cause });
    }
    if (typeof given === 'string') return given;
    throw new LockkeeperError('unauthenticated', `auth.password() gave no string but ${typeof given}`);
  }
}
