import { expect, it } from 'vitest';
import { kindOf } from './kinds';

it.each([
  ['indices:data/read/search', 'searches'],
  ['indices:data/read/async_search/submit', 'searches'],
  ['indices:data/write/bulk', 'writes'],
  ['cluster:admin/snapshot/create[n]', 'snapshots'],
  ['cluster:admin/repository/analyze', 'snapshots'],
  ['indices:admin/forcemerge', 'other'],
])('%s is among %s', (action, kind) => {
  expect(kindOf(action)).toBe(kind);
});
