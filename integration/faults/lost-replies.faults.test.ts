import { availableEtcdVersions } from '@lockkeeper/testkit';
import { describeLateCopies } from './late-copies.ts';

for (const version of await availableEtcdVersions()) describeLateCopies(version, 25);
