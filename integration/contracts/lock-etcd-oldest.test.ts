import { describeLocksOnEtcd } from './etcd-world.ts';

await describeLocksOnEtcd('oldest');
