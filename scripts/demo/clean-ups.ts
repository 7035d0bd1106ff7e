/** Whatever hangs must not keep the rest from being cleaned up. */
const STEP_LIMIT_MS = 10_000;

/**
 * What has to be undone, undone in reverse order, each exactly once, and none left out because another failed.
 * (DisposableStack needs a newer Node.)
 */
export class CleanUps {
  readonly #steps: { readonly what: string; readonly step: () => unknown }[] = [];
  #running: Promise<void> | undefined;

  /** Once the clean-up has begun, `step` runs at once: what was started too late must not stay either. */
  add(what: string, step: () => unknown): void {
    if (this.#running === undefined) {
      this.#steps.push({ what, step });
      return;
    }
    Promise.resolve()
      .then(step)
      .catch((error: unknown) => process.emitWarning(`${what} failed: ${error}`));
  }

  /** Idempotent. Rejects with everything that failed, after everything was tried. */
  run(): Promise<void> {
    this.#running ??= this.#drain();
    return this.#running;
  }

  async #drain(): Promise<void> {
    const failures: unknown[] = [];
    for (const { what, step } of this.#steps.reverse()) {
      try {
        await limited(what, step());
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw new AggregateError(failures, `cleaning up failed: ${failures.join('; ')}`);
  }
}

async function limited(what: string, work: unknown): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<never>((_resolve, reject) => {
    const error = new Error(`${what} took longer than ${STEP_LIMIT_MS} ms`);
    timer = setTimeout(() => reject(error), STEP_LIMIT_MS);
  });
  try {
    await Promise.race([work, limit]);
  } finally {
    clearTimeout(timer);
  }
}
