import { decideGuard, type FencingToken, type GuardState } from '@lockkeeper/fencing';
import { formatStoredState } from './stored-state.ts';

/**
 * The state as one guard object saw it last, for storages that can compare the whole state in the message that
 * brings a statement. It may be out of date: then nothing is applied, and the long way tells what is so.
 */
export class LastSeen {
  readonly #resource: string;
  #state: GuardState | undefined;

  constructor(resource: string) {
    this.#resource = resource;
  }

  note(state: GuardState | undefined): void {
    this.#state = state;
  }

  /** The text of the state in which `token` most likely finds itself let in: a reader may be below another one. */
  expectedFor(token: FencingToken): string {
    const decision = decideGuard('run', this.#resource, this.#state, token);
    const letIn = decision.verdict === 'accept' && decision.next === undefined;
    return formatStoredState(letIn && this.#state !== undefined ? this.#state : { token, sealed: false });
  }
}
