import { describeOneMember } from './one-member.ts';

// The promise is for 5 s and more. Here many clients share two cores with other tests; the long run tries 5 s.
describeOneMember('newest', {
  faults: ['frozen leader', 'follower cut off from the others, without a leader'],
  ttlMs: 8_000,
  concurrent: true,
});
