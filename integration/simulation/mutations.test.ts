import { findMutations } from './find-mutations.ts';
import { mutations } from './mutations.ts';

// Every tenth: all of them take longer than a gate may, and are found by mutations.faults.test.ts.
findMutations(mutations.filter((_, index) => index % 10 === 0));
