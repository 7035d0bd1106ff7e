import { findMutations } from './find-mutations.ts';
import { mutations } from './mutations.ts';

// Every fifth: all of them take longer than a gate may, and are found by mutations.faults.test.ts.
findMutations(mutations.filter((_, index) => index % 5 === 0));
