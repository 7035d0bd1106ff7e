import { findMutations } from './find-mutations.ts';
import { mutations } from './mutations.ts';

findMutations(mutations);
