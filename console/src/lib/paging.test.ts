import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Hit } from '../api/discover';
import { appended, nextPageAfter, withFresh } from './paging';

/** Simulates a server: returns `size` hits after a sort position. */
function page(all: Hit[], after: unknown[] | null, size: number): Hit[] {
  const rest = after === null ? all : all.filter((hit) => (hit.sort?.[0] as number) > (after[0] as number));
  return rest.slice(0, size);
}

describe('pages of events', () => {
  it('contain every event once, also if events have equal sort values', () => {
    // At most three share a sort value, and pages are longer than that.
    const places = fc.array(fc.integer({ min: 1, max: 3 }), { maxLength: 30 });
    fc.assert(
      fc.property(places, fc.integer({ min: 5, max: 9 }), (places, size) => {
        const all = places.flatMap((count, place) => Array.from({ length: count }, (_, at): Hit => ({ _index: 'a', _id: `${place}.${at}`, sort: [place] })));
        let hits = page(all, null, size);
        for (let turns = 0; turns < 100 && hits.length < all.length; turns += 1) hits = appended(hits, page(all, nextPageAfter(hits), size));
        expect(hits.map((hit) => hit._id)).toEqual(all.map((hit) => hit._id));
      }),
    );
  });

  it('end if hits have no sort values', () => {
    expect(nextPageAfter([])).toBeNull();
    expect(nextPageAfter([{ _index: 'a', _id: '1' }])).toBeNull();
  });

  it('begin with new events, each event once', () => {
    const hit = (id: string): Hit => ({ _index: 'a', _id: id });
    const hits = [hit('3'), hit('2'), hit('1')];
    expect(withFresh([hit('5'), hit('3')], hits).map(({ _id }) => _id)).toEqual(['5', '3', '2', '1']);
    expect(withFresh([], hits)).toBe(hits);
  });
});
