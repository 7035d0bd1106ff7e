import { describeLocksOnEtcd } from './etcd-world.ts';

await describeLocksOnEtcd('newest');
