import { availableEtcdVersions } from '@lockkeeper/testkit';
import { describeUsers } from './users.ts';

// The newest is part of every run.
for (const version of (await availableEtcdVersions()).slice(0, -1)) describeUsers(version);
