import { describe, expect, test } from 'vitest';
import { ProtoWriter } from './proto-writer.ts';
import { decodeWatchReply } from './watch-messages.ts';

/** Written from the end to the beginning. */
function message(write: (writer: ProtoWriter) => void): Buffer {
  const writer = new ProtoWriter();
  write(writer);
  return writer.finish();
}

describe('a reply on a watch stream', () => {
  test('has every event in its order, whatever else a newer etcd says', () => {
    const reply = message((writer) => {
      const deletion = writer.mark;
      const gone = writer.mark;
      writer.int64(3, 12n);
      writer.text(1, 'gone');
      writer.nested(2, gone);
      writer.number(1, 1);
      writer.nested(11, deletion);
      const put = writer.mark;
      writer.text(99, 'of a later version');
      const kv = writer.mark;
      writer.int64(6, -7n);
      writer.text(5, 'value');
      writer.int64(4, 1n);
      writer.int64(3, 11n);
      writer.int64(2, 11n);
      writer.text(1, 'ключ');
      writer.nested(2, kv);
      writer.nested(11, put);
      writer.number(98, 5);
      writer.int64(2, 3n);
      const header = writer.mark;
      writer.int64(3, 2n ** 40n);
      writer.nested(1, header);
    });
    expect(decodeWatchReply(reply)).toEqual({
      id: 3,
      created: false,
      canceled: false,
      compactRevision: 0n,
      reason: '',
      revision: 2n ** 40n,
      events: [
        {
          type: 'put',
          kv: {
            key: 'ключ',
            value: Buffer.from('value'),
            createRevision: 11n,
            modRevision: 11n,
            version: 1n,
            lease: -7n,
          },
        },
        { type: 'delete', key: 'gone', modRevision: 12n },
      ],
    });
  });

  test('may refuse a creation, with an id of no watch', () => {
    const reply = message((writer) => {
      writer.text(6, 'etcdserver: permission denied');
      writer.int64(5, 9n);
      writer.number(4, 1);
      writer.number(3, 1);
      writer.int64(2, -1n);
    });
    expect(decodeWatchReply(reply)).toMatchObject({
      id: -1,
      created: true,
      canceled: true,
      compactRevision: 9n,
      reason: 'etcdserver: permission denied',
      events: [],
    });
  });

  test.each([
    ['cut off', Buffer.from([0x5a, 5, 8])],
    ['an event without a key', Buffer.from([0x5a, 2, 8, 1])],
  ])('is refused where it makes no sense: %s', (_what, reply) => {
    expect(() => decodeWatchReply(reply)).toThrow(RangeError);
  });
});
