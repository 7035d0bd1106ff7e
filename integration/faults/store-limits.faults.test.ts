import { availableEtcdVersions } from '@lockkeeper/testkit';
import { describeStoreLimits } from './store-limits.ts';

// The newest is part of every run.
for (const version of (await availableEtcdVersions()).slice(0, -1)) describeStoreLimits(version);
