/** One place of a source file, changed. `find` must occur in it exactly once. */
export interface Edit {
  /** Below `packages/core/src`. */
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}

/** A bug, put into the real sources on purpose. */
export interface Mutation {
  readonly name: string;
  /** What goes wrong with it. */
  readonly harm: string;
  readonly edits: readonly Edit[];
}

export const mutations: readonly Mutation[] = [
  {
    name: 'deadline counted from the receipt',
    harm: 'a reply that took long extends the lease beyond what the server granted',
    edits: [
      {
        file: 'session/session.ts',
        find: 'grantedLease(sentAt, wallAtSend, granted.ttlMs, marginMs)',
        replace:
          'grantedLease(coordinator.clock.now(), coordinator.clock.wallTime(), granted.ttlMs, marginMs)',
      },
      {
        file: 'session/session.ts',
        find: "this.#step({ type: 'confirmed', sentAt, ttlMs,",
        replace: "this.#step({ type: 'confirmed', sentAt: this.#clock.now(), ttlMs,",
      },
    ],
  },
  {
    name: 'no margin before the end of a lease',
    harm: 'a clock that is a little slow holds on after the lease has expired',
    edits: [
      {
        file: 'session/lease-machine.ts',
        find: 'return Math.min(marginMs ?? Math.max(500, ttlMs / 10), ttlMs / 2);',
        replace: 'return 0;',
      },
    ],
  },
  {
    name: 'loss left to the timers',
    harm: 'after a pause user code runs before the timers, and believes that it holds the lock',
    edits: [
      {
        file: 'session/session.ts',
        find: "    return this.#step({ type: 'looked', ...this.#moment() });",
        replace: '    return this.#state;',
      },
      {
        file: 'session/session.ts',
        find: "if (this.#look().phase === 'live') this.#armTimers();",
        replace: "if (this.#step({ type: 'looked', ...this.#moment() }).phase === 'live') this.#armTimers();",
      },
    ],
  },
  {
    name: 'a suspended machine goes unnoticed',
    harm: 'its monotonic clock stood still, so the deadline has not passed for it',
    edits: [
      {
        file: 'session/lease-machine.ts',
        find: 'if (offset - state.wallOffset > tolerated) {',
        replace: 'if (offset - state.wallOffset > 10 * tolerated + state.ttlMs * 1_000) {',
      },
    ],
  },
  {
    name: 'lease revoked at once on loss',
    harm: 'gives away the margin while work under the lock still runs',
    edits: [
      {
        file: 'session/session.ts',
        find: 'if (members.length === 0) void this.#revoke();',
        replace: 'void this.#revoke();',
      },
    ],
  },
  {
    name: 'the ending deletes whatever is there',
    harm: 'a repeat that comes late deletes the key of a newer acquisition',
    edits: [
      {
        file: 'lock/ending.ts',
        find: 'return { compare: acquisition.standsAt(place), success, failure };',
        replace: 'return { compare: [], success, failure };',
      },
    ],
  },
  {
    name: 'no cancelled key',
    harm: 'a late copy of the enqueue creates a key that nobody owns and the session keeps alive',
    edits: [
      {
        file: 'lock/ending.ts',
        find: 'if (unanswered > 0) besides',
        replace: 'if (unanswered > 1e9) besides',
      },
    ],
  },
  {
    name: 'the cancelled key is not looked at',
    harm: 'the same, although it is there',
    edits: [
      {
        file: 'lock/enqueue.ts',
        find: 'compare.push(isAbsent(cancelledKey), acquisition',
        replace: 'compare.push(acquisition',
      },
    ],
  },
  {
    name: 'an ending is sent once',
    harm: 'the key of a hold that was released stays',
    edits: [
      {
        file: 'lock/ending.ts',
        find: "if (session.isLost()) return 'session-lost';\n        logger",
        replace: "if (session.isLost() || sent > 0) return 'session-lost';\n        logger",
      },
    ],
  },
  {
    name: 'an ending leaves what it finds in place of its key',
    harm: 'a key that was put there by somebody else, or by a late copy, stays',
    edits: [
      {
        file: 'lock/ending.ts',
        find: 'for (const found of left) await removeKey(',
        replace: 'for (const found of left.slice(9)) await removeKey(',
      },
    ],
  },
  {
    name: 'slot freed before the ending is confirmed',
    harm: 'the next acquisition takes the same key, and the ending of this one removes it',
    edits: [
      {
        file: 'lock/ending.ts',
        find: '  let sent = 0;\n',
        replace:
          '  let sent = 0;\n  for (const { queue, slot } of acquisition.queues) session.slots.free(queue.keys, slot);\n',
      },
    ],
  },
  {
    name: 'a loss sends no ending',
    harm: 'a key that was overwritten is left without an owner',
    edits: [
      { file: 'lock/hold.ts', find: 'if (!session.isLost()) void this.#end();', replace: '' },
      {
        file: 'lock/hold.ts',
        find: `    void this.#end();
    return { outcome: 'already-lost', sealed: undefined };`,
        replace: "    return { outcome: 'already-lost', sealed: undefined };",
      },
    ],
  },
  {
    name: 'the deciding read does not look for the own key',
    harm: 'a waiter whose key was deleted is granted a lock that it has no claim to',
    edits: [
      {
        file: 'lock/wait-turn.ts',
        find: `  if (places.some(({ own }) => own?.createRevision !== token))
    throw await lostKey(acquisition, 'key-deleted');
  if (places.some(({ own }) => own?.modRevision !== token)) throw await lostKey(acquisition, 'foreign-write');
`,
        replace: '',
      },
    ],
  },
  {
    name: 'granted on the predecessor’s deletion alone',
    harm: 'the predecessor may only have given up',
    edits: [
      {
        file: 'lock/queue-picture.ts',
        find: `    if (before === undefined) this.#first = behind;
    else before.behind = behind;`,
        replace: `    this.#first = behind;
    this.#front = undefined;
    if (before !== undefined) before.behind = behind;`,
      },
    ],
  },
  {
    name: 'decided in the middle of a revision',
    harm: 'two keys of one lease go together, and the second of them is granted',
    edits: [
      {
        file: 'lock/queue-mirror.ts',
        find: `    picture.apply(events);
    const cameToFront = picture.advance();
`,
        replace: `    const cameToFront = events.flatMap((event) => {
      picture.apply([event]);
      const keys = picture.advance();
      this.#judge(keys);
      return keys;
    });
`,
      },
    ],
  },
  {
    name: 'the own put is not waited for',
    harm: 'an earlier key in the same place, whose deletion is still to come, is taken for it',
    edits: [
      {
        file: 'lock/queue-picture.ts',
        find: `    if (entry?.createRevision !== token) return this.#revision < token ? undefined : 'key-deleted';
    if (entry.modRevision !== token) return 'foreign-write';`,
        replace: `    if (entry === undefined) return this.#revision < token ? undefined : 'key-deleted';
    if (entry.modRevision !== entry.createRevision) return 'foreign-write';`,
      },
    ],
  },
  {
    name: 'a mirror is watched from a revision too late',
    harm: 'who came or went in between is never seen to have',
    edits: [
      {
        file: 'lock/following.ts',
        find: 'this.#follow(revision + 1n);',
        replace: 'this.#follow(revision + 2n);',
      },
    ],
  },
  {
    name: 'a mirror does not look at the ModRevision of the own key',
    harm: 'a waiter is granted a lock by a key that is no longer on its lease',
    edits: [
      {
        file: 'lock/queue-picture.ts',
        find: "    if (entry.modRevision !== token) return 'foreign-write';\n",
        replace: '',
      },
    ],
  },
  {
    name: 'a release hands over to anybody of ours',
    harm: 'others stand before him',
    edits: [
      {
        file: 'lock/queue-mirror.ts',
        find: 'const seat = next === undefined ? undefined : this.#seats.get(next);',
        replace: 'const seat = next === undefined ? undefined : [...this.#seats.values()].at(-1);',
      },
    ],
  },
  {
    name: 'a set is granted on its predecessors’ deletion alone',
    harm: 'they may only have given up',
    edits: [
      {
        file: 'lock/wait-turn.ts',
        find: 'if (wake.watchEnded) await backOff.wait(signal);',
        replace: 'if (wake.watchEnded) await backOff.wait(signal);\n      else return;',
      },
    ],
  },
  {
    name: 'watches begin a revision too late',
    harm: 'a deletion in between goes unseen, and everybody waits for the next poll',
    edits: [
      {
        file: 'lock/wait-turn.ts',
        find: 'let startRevision = revision + 1n;',
        replace: 'let startRevision = revision + 2n;',
      },
      {
        file: 'lock/wait-turn.ts',
        find: 'startRevision = turn.revision + 1n;',
        replace: 'startRevision = turn.revision + 2n;',
      },
    ],
  },
  {
    name: 'blind repeat of the enqueue',
    harm: 'a second copy rewrites the own key: its token is not the one that was granted',
    edits: [
      {
        file: 'lock/enqueue.ts',
        find: '      compare.push(isAbsent(place.key));\n',
        replace: '',
      },
    ],
  },
  {
    name: 'unknown told as failure',
    harm: 'an acquire fails although it may have been applied',
    edits: [
      {
        file: 'lock/enqueue.ts',
        find: "  if (error.code === 'unreachable') {\n    acquisition.trouble = error;\n    return;\n  }\n",
        replace: '',
      },
    ],
  },
  {
    name: 'seal skipped',
    harm: 'a late write of a holder that has released is accepted',
    edits: [
      { file: 'lock/claims.ts', find: 'await guard.seal(token, { signal: scope.signal });', replace: '' },
    ],
  },
  {
    name: 'claim skipped',
    harm: 'a late write of the last holder is accepted after the hand-over',
    edits: [
      {
        file: 'lock/lock.ts',
        find: 'await claimAll(clock, terms.claims, hold.token, terms.claimTimeoutMs, scope.signal);',
        replace: '',
      },
    ],
  },
  {
    name: 'granted with hardly any time left',
    harm: 'a hold is handed out that is about to be lost',
    edits: [{ file: 'lock/lock.ts', find: 'await freshen(clock, acquisition.session, scope);', replace: '' }],
  },
  {
    name: 'keys of holds are not watched',
    harm: 'a holder does not learn that its key was deleted',
    edits: [
      {
        file: 'lock/ownership-watch.ts',
        find: '    ownership.add(this);\n',
        replace: '',
      },
    ],
  },
  {
    name: 'regression compared with the highest revision seen so far',
    harm: 'replies that overtake each other end healthy sessions',
    edits: [
      {
        file: 'coordinator/history-watch.ts',
        find: `    const seenBefore = this.#highest;
    const reply = await sent;`,
        replace: `    const reply = await sent;
    const seenBefore = this.#highest;`,
      },
      {
        file: 'coordinator/history-watch.ts',
        find: 'if (revision >= seen || this.#highest < seen) return;',
        replace: '',
      },
    ],
  },
  {
    name: 'a reader waits for nobody',
    harm: 'it reads beside a writer',
    edits: [
      {
        file: 'lock/key-layout.ts',
        find: '        rivals: writers,',
        replace: "        rivals: 'nobody/' + family,",
      },
    ],
  },
  {
    name: 'a writer does not wait for readers',
    harm: 'it writes beside them',
    edits: [
      {
        file: 'lock/key-layout.ts',
        find: 'write: { keys: writers, rivals: family,',
        replace: 'write: { keys: writers, rivals: writers,',
      },
    ],
  },
  {
    name: 'a writer passes one who has become a reader',
    harm: 'it writes beside a reader',
    edits: [
      {
        file: 'lock/queue-picture.ts',
        find: 'return front.isExclusive || next?.isExclusive ? undefined : next;',
        replace: 'return front.isExclusive ? undefined : next;',
      },
    ],
  },
  {
    name: 'a reader holds by an exclusive token',
    harm: 'guards refuse it once a newer reader has claimed',
    edits: [{ file: 'lock/key-layout.ts', find: '        isOfReaders: true,\n', replace: '' }],
  },
  {
    name: 'a reader does not claim',
    harm: 'a late write of the last writer is accepted under its eyes',
    edits: [
      {
        file: 'lock/lock.ts',
        find: 'await claimAll(clock, terms.claims, hold.token,',
        replace: 'await claimAll(clock, hold.token.shared ? [] : terms.claims, hold.token,',
      },
    ],
  },
  {
    name: 'a downgrade does not claim',
    harm: 'a late write of the writer that it was is accepted beside readers',
    edits: [
      {
        file: 'lock/hold.ts',
        find: 'await claimAll(this.#host.options.clock, claims, this.token, claimTimeoutMs, signal);',
        replace:
          'await claimAll(this.#host.options.clock, claims.slice(0, 0), this.token, claimTimeoutMs, signal);',
      },
    ],
  },
  {
    name: 'a downgraded hold keeps its exclusive token',
    harm: 'guards refuse its reads once a newer reader has claimed',
    edits: [
      {
        file: 'lock/hold.ts',
        find: 'this.#token = new FencingToken({ ...this.token, shared: true });',
        replace: '',
      },
    ],
  },
  {
    name: 'a reader waits for one who has become a reader before',
    harm: 'nothing happens any more that would wake it up',
    edits: [
      {
        file: 'lock/queue-picture.ts',
        find: '(key.startsWith(this.#writers) && !isDowngraded(kv))',
        replace: '(key.startsWith(this.#writers) && !isDowngraded({ ...kv, value: new Uint8Array() }))',
      },
    ],
  },
  {
    name: 'a set is granted when it is first in its first queue',
    harm: 'the other locks of the set are held by somebody else',
    edits: [
      {
        file: 'lock/wait-turn.ts',
        find: 'behind: places.flatMap(({ before }) => before?.key ?? [])',
        replace: 'behind: places.slice(0, 1).flatMap(({ before }) => before?.key ?? [])',
      },
    ],
  },
  {
    name: 'the ending of a set deletes its first key alone',
    harm: 'its other locks stay taken',
    edits: [
      {
        file: 'lock/ending.ts',
        find: 'const success = acquisition.places.map(',
        replace: 'const success = acquisition.places.slice(0, 1).map(',
      },
    ],
  },
  {
    name: 'only the first key of a set is watched',
    harm: 'a holder does not learn that it lost another lock of the set',
    edits: [
      {
        file: 'lock/hold.ts',
        find: 'this.#owned = acquisition.places.map((place)',
        replace: 'this.#owned = acquisition.places.slice(0, 1).map((place)',
      },
    ],
  },
  {
    name: 'the session of an isolated hold is not retired',
    harm: 'its lease is renewed for ever',
    edits: [
      {
        file: 'lock/lock.ts',
        find: 'if (this.#ownTtlMs !== undefined) session.retire();',
        replace: '',
      },
    ],
  },
  {
    name: 'maxHoldMs is not looked at',
    harm: 'a hold stands for as long as it is renewed',
    edits: [
      {
        file: 'lock/hold.ts',
        find: 'if (this.#heldMs() >= (this.#options.maxHoldMs ?? Number.POSITIVE_INFINITY)) {',
        replace: 'if (this.#heldMs() >= Number.POSITIVE_INFINITY) {',
      },
    ],
  },
  {
    name: 'minHoldMs is not waited for',
    harm: 'the next one starts sooner than it was promised',
    edits: [{ file: 'lock/hold.ts', find: 'await this.#outlastMinimum();', replace: '' }],
  },
  {
    name: 'a term is told by the revision of its last write',
    harm: 'whoever proclaims loses the election by it',
    edits: [
      {
        file: 'lock/acquisition.ts',
        find: 'if (!isRewritable) return kv.modRevision === revision;',
        replace: 'return kv.modRevision === revision;',
      },
    ],
  },
  {
    name: 'any write to a term’s key is taken for its own',
    harm: 'a leader whose key was overwritten goes on, on a key without a lease',
    edits: [
      {
        file: 'lock/acquisition.ts',
        find: 'return kv.createRevision === revision && kv.lease === this.session.lease;',
        replace: 'return kv.createRevision === revision;',
      },
    ],
  },
  {
    name: 'the details of a candidate are left behind',
    harm: 'they stay for as long as its session lives',
    edits: [
      {
        file: 'lock/ending.ts',
        find: 'if (detailsKey !== key) {',
        replace: "if (detailsKey !== key && key === '') {",
      },
    ],
  },
  {
    name: 'a proclamation does not compare with the last one',
    harm: 'a copy that comes late writes an old value over a newer one',
    edits: [
      {
        file: 'election/term.ts',
        find: ", { key, target: 'modRevision', is: '=', to: this.#writtenAt } as const]",
        replace: ']',
      },
    ],
  },
  {
    name: 'a proclamation that was applied is written again',
    harm: 'observers are told of one change twice',
    edits: [
      {
        file: 'election/term.ts',
        find: "return new TextDecoder().decode(own.value) === value ? 'written' : 'again';",
        replace: "return 'again';",
      },
    ],
  },
  {
    name: 'an observer believes the last event',
    harm: 'a candidate that enters, or leaves, is taken for the leader',
    edits: [
      {
        file: 'election/observer.ts',
        find: `    this.#changes.push(this.#leader());
    this.#wake();`,
        replace: `    const last = events.at(-1);
    this.#changes.push(leaderOf(last?.type === 'put' ? last.kv : undefined));
    this.#wake();`,
      },
    ],
  },
  {
    name: 'an observer takes the events of a revision one by one',
    harm: 'whoever went in the same revision as the leader is told to be the next one',
    edits: [
      {
        file: 'election/observer.ts',
        find: 'if (at !== undefined && revision !== at) this.#changes.push(this.#leader());',
        replace: 'if (at !== undefined) this.#changes.push(this.#leader());',
      },
    ],
  },
  {
    name: 'a term begins although the work of the last one has not ended',
    harm: 'one candidate works twice at once',
    edits: [
      {
        file: 'election/election.ts',
        find: "throw new LockkeeperError('drain-timeout', what, { cause: term.loss });",
        replace: 'continue;',
      },
    ],
  },
  {
    name: 'a slot is taken without a look at the own place in the queue',
    harm: 'a copy that comes late takes it for somebody who has given up',
    edits: [
      { file: 'semaphore/admission.ts', find: '          ...acquisition.standsAt(queued),\n', replace: '' },
    ],
  },
  {
    name: 'a slot is taken by whoever finds it free, in turn or not',
    harm: 'those who came first wait behind those who came later',
    edits: [
      {
        file: 'semaphore/semaphore-mirror.ts',
        find: ' || before >= seat.permits) return false;',
        replace: ') return false;',
      },
      {
        file: 'semaphore/semaphore-mirror.ts',
        find: "picture.first(readLimit(stored ?? '') ?? MOST_PERMITS)",
        replace: 'picture.first(MOST_PERMITS)',
      },
    ],
  },
  {
    name: 'a slot is taken whether it is free or not',
    harm: 'two hold one permit',
    edits: [
      {
        file: 'semaphore/admission.ts',
        find: "          { key, target: 'createRevision', is: '=', to: 0n },\n",
        replace: '',
      },
    ],
  },
  {
    name: 'a slot is kept at the release',
    harm: 'there is one permit less from then on',
    edits: [
      {
        file: 'lock/ending.ts',
        find: 'const success = acquisition.places.map(',
        replace: 'const success = acquisition.places.filter(({ isShared }) => !isShared).map(',
      },
    ],
  },
  {
    name: 'a slot that was written over is left behind',
    harm: 'there is one permit less from then on',
    edits: [
      {
        file: 'lock/ending.ts',
        find: '= isShared ? ifSpoilt(key, revision) : [',
        replace: '= isShared ? ifSpoilt(key, undefined) : [',
      },
    ],
  },
  {
    name: 'the lock-delay is not waited for',
    harm: 'what a vanished holder had on its way arrives under the next one',
    edits: [
      {
        file: 'lock/lock-delay.ts',
        find: 'if (vanished) await sleep(coordinator.clock, lockDelayMs, { signal });',
        replace: 'if (vanished) signal.throwIfAborted();',
      },
    ],
  },
  {
    name: 'the mark of a lock-delay stays after the release',
    harm: 'everybody waits, although nobody vanished',
    edits: [
      {
        file: 'lock/ending.ts',
        find: 'besides.push(...takeBackMarks(acquisition));',
        replace: 'besides.push(...takeBackMarks(acquisition).slice(9));',
      },
    ],
  },
  {
    name: 'the mark of a lock-delay is taken back by any ending',
    harm: 'whoever follows a lost hold does not wait',
    edits: [
      {
        file: 'lock/ending.ts',
        find: 'if (isReleased && mayTakeBackMark)',
        replace: 'if (isReleased || mayTakeBackMark)',
      },
    ],
  },
  {
    name: 'one who gives up in the delay takes the mark along',
    harm: 'whoever follows it does not wait for what an earlier holder had on its way',
    edits: [
      {
        file: 'lock/ending.ts',
        find: 'if (isReleased && mayTakeBackMark)',
        replace: 'if (isReleased || !mayTakeBackMark)',
      },
    ],
  },
  {
    name: 'a request to let go deletes the key of the holder',
    harm: 'it takes the lock away',
    edits: [
      {
        file: 'lock/lock.ts',
        find: "[{ op: 'put', key: requestKey, value: request, lease }]",
        replace: "[{ op: 'put', key: requestKey, value: request, lease }, { op: 'delete', key }]",
      },
    ],
  },
  {
    name: 'requests to let go are watched from a revision too late',
    harm: 'a request that comes first is never heard',
    edits: [
      {
        file: 'lock/release-request.ts',
        find: '{ key: this.#key, startRevision: this.#heard + 1n },',
        replace: '{ key: this.#key, startRevision: this.#heard + 20n },',
      },
    ],
  },
  {
    name: 'two that touch the same keys in one batch',
    harm: 'both see the queue as it was before the batch, and both believe that they hold the lock',
    edits: [
      {
        file: 'coordinator/group-commit/group-commit.ts',
        find: 'batch.members.length > 0 && (batch.conflictsWith(footprint) || before.conflictsWith(footprint));',
        replace: 'false;',
      },
    ],
  },
  {
    name: 'ranges are left out of what a member touches',
    harm: 'the same: it is the range over the queue in which they meet, not their keys',
    edits: [
      {
        file: 'coordinator/group-commit/footprint.ts',
        find: '    list.push(span);\n',
        replace: '    if (span.rangeEnd === undefined) list.push(span);\n',
      },
    ],
  },
  {
    name: 'two readers of one lock in one batch',
    harm: 'they get one token, which guards take for a history that was rewritten',
    edits: [
      {
        file: 'lock/enqueue.ts',
        find: 'if (isOfReaders === true && family !== undefined) apart',
        replace: 'if (isOfReaders === true && family === undefined) apart',
      },
      // Their lane would keep them apart too.
      {
        file: 'coordinator/group-commit/footprint.ts',
        find: 'if (list === this.reads) this.lane ??= key;',
        replace: '',
      },
    ],
  },
  {
    name: 'two who come last in one batch',
    harm: 'they get one token, and both believe that they are the next',
    edits: [
      {
        file: 'lock/enqueue.ts',
        find: 'if (isLast) apart.push(prefixSpan(place.queue.rivals));',
        replace: '',
      },
    ],
  },
  {
    name: 'a batch without an answer told as refused',
    harm: 'a copy that is applied later is not reckoned with',
    edits: [
      {
        file: 'coordinator/group-commit/group-commit.ts',
        find: '{ cause, outcome });',
        replace: "{ cause, outcome: 'rejected' });",
      },
    ],
  },
  {
    name: 'a refused batch told as failure to all',
    harm: 'one dead lease costs others their sessions',
    edits: [
      {
        file: 'coordinator/group-commit/group-commit.ts',
        find: 'if (!isRefusal(error) || OF_ALL.has(error.code)) {',
        replace: 'if (OF_ALL.size > 0) {',
      },
    ],
  },
  {
    name: 'the revision of the nested reply taken for the token',
    harm: 'etcd puts none there',
    edits: [
      {
        file: 'coordinator/group-commit/batch.ts',
        find: 'results: result.results, revision: reply.revision }',
        replace: 'results: result.results, revision: 0n }',
      },
    ],
  },
  {
    name: 'the answers of a batch told to the wrong members',
    harm: 'one takes what another was granted',
    edits: [
      {
        file: 'coordinator/group-commit/group-commit.ts',
        find: 'const own = replyOf(reply, at);',
        replace: 'const own = replyOf(reply, (at + 1) % members.length);',
      },
    ],
  },
];

/** @throws RangeError if there is none of that name. */
export function mutation(name: string): Mutation {
  const found = mutations.find((other) => other.name === name);
  if (found === undefined) throw new RangeError(`no mutation "${name}"`);
  return found;
}
