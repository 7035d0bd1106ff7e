import { describeStoreLimits } from './store-limits.ts';

describeStoreLimits('newest');
