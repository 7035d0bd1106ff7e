import { describeUsers } from './users.ts';

describeUsers('newest');
