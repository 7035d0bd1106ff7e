/**
 * Everything that can go wrong, as a closed set:
 *
 * | code | meaning |
 * |---|---|
 * | `invalid-option` | an option was refused; the message names it and its value |
 * | `no-server` | no fit server is in reach; the message says what to install or set |
 * | `start-failed` | a process ended, or was not ready in time; the message carries the end of its log |
 * | `not-ours` | a server found by its address cannot be paused, killed or restarted |
 * | `not-running` | the process has ended |
 * | `timeout` | what was waited for did not come in time |
 * | `not-permitted` | the kernel does not allow it here |
 * | `command-failed` | `etcdctl` ended with an error |
 * | `drill-failed` | what a drill was given did not work already without a pause |
 * | `invalid-history` | an event of a history was refused; the message names its field and value |
 */
export type TestkitErrorCode =
  | 'invalid-option'
  | 'no-server'
  | 'start-failed'
  | 'not-ours'
  | 'not-running'
  | 'timeout'
  | 'not-permitted'
  | 'command-failed'
  | 'drill-failed'
  | 'invalid-history';

const BRAND = Symbol.for('@lockkeeper/testkit/TestkitError');

/**
 * The one error class of this package. `instanceof` also holds for errors made by another installed copy.
 */
export class TestkitError extends Error {
  override readonly name = 'TestkitError';
  readonly code: TestkitErrorCode;

  constructor(code: TestkitErrorCode, message: string, options: { readonly cause?: unknown } = {}) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined);
    this.code = code;
    Object.defineProperty(this, BRAND, { value: true });
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    return typeof value === 'object' && value !== null && BRAND in value;
  }
}
