// The verbs that change nothing but a guard's state are one step in every storage: decide while nobody runs and
// nobody else decides, and store what was decided.
import {
  type Claimable,
  compareTokens,
  decideGuard,
  decideRebase,
  type FencingToken,
  type GuardAdmin,
  type GuardCallOptions,
  type GuardDecision,
  type GuardState,
  type RebaseOptions,
} from '@lockkeeper/fencing';
import { checkResource, checkToken } from './options.ts';

export interface Step {
  readonly token: FencingToken;
  readonly signal: AbortSignal | undefined;
  decide(state: GuardState | undefined): GuardDecision;
}

export abstract class DecidingGuard implements Claimable, Pick<GuardAdmin, 'rebase'> {
  readonly resource: string;

  constructor(resource: unknown) {
    this.resource = checkResource(resource);
  }

  /** Takes one step, or rejects with the reason why not. */
  protected abstract take(step: Step): Promise<void>;

  async claim(token: FencingToken, options: GuardCallOptions = {}): Promise<void> {
    await this.take(this.stepOf('claim', checkToken(token), options.signal));
  }

  async seal(token: FencingToken, options: GuardCallOptions = {}): Promise<void> {
    await this.take(this.stepOf('seal', checkToken(token), options.signal));
  }

  async rebase(presented: FencingToken, options: RebaseOptions): Promise<void> {
    const token = checkToken(presented);
    const from = checkToken(options?.from);
    const decide = (state: GuardState | undefined) => decideRebase(this.resource, state, token, from);
    await this.take({ token, signal: options.signal, decide });
  }

  protected stepOf(verb: 'claim' | 'seal', token: FencingToken, signal: AbortSignal | undefined): Step {
    return { token, signal, decide: (state) => decideGuard(verb, this.resource, state, token) };
  }
}

/**
 * Whether what was decided on `state` may be stored, or left, while runs are in flight: a reader that comes in beside
 * readers takes nothing away that their runs rest on, and writers' runs ended when the first of them claimed.
 */
export function spoilsNoRun(state: GuardState | undefined, decision: GuardDecision): boolean {
  if (decision.verdict === 'reject' || decision.next === undefined) return true;
  const { token } = decision.next;
  return state?.token.shared === true && token.shared && compareTokens(token, state.token) === 'above';
}
