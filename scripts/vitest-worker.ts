// Loaded into every process that runs tests: it ends with the Vitest that started it, however that ended. The
// testkit's servers and workers then end with it.

const watched = Symbol.for('lockkeeper.watches-vitest');

if (!(watched in globalThis)) {
  Object.assign(globalThis, { [watched]: true });
  process.once('disconnect', () => process.exit(1));
}
