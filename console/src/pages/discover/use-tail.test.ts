import { describe, expect, it } from 'vitest';
import type { Hit } from '../../api/discover';
import { withNewer } from './use-tail';

const hit = (id: number): Hit => ({ _index: 'a', _id: String(id) });

describe('events of the tail', () => {
  it('are newest first, although they arrive oldest first', () => {
    expect(withNewer([hit(2), hit(1)], [hit(3), hit(4)]).map(({ _id }) => _id)).toEqual(['4', '3', '2', '1']);
  });

  it('are limited in number', () => {
    const many = Array.from({ length: 3000 }, (_, at) => hit(at));
    const kept = withNewer(many, [hit(9999)]);
    expect([kept.length, kept[0]?._id]).toEqual([2000, '9999']);
  });
});
