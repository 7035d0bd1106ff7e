import { FencingToken } from '@lockkeeper/fencing';
import { expect, it } from 'vitest';
import { checkToken } from './options.ts';

const token = new FencingToken({ lineage: 'main', revision: 7n, acquisition: 'a' });

it('says what to pass where something that has a token was passed instead of it', () => {
  class Hold {
    readonly token = token;
  }
  expect(() => checkToken(new Hold() as never)).toThrow('fencing token: got a Hold; pass hold.token');
  class PermitToken {
    forSlot() {
      return token;
    }
  }
  expect(() => checkToken(new PermitToken() as never)).toThrow(/use permit\.token\.forSlot\(slot\)/);
  expect(checkToken({ ...token } as FencingToken)).toEqual(token);
});
