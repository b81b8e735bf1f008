import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { brushedRange, bucketAt, rangeOfBuckets } from './brush';
import { absoluteRange } from './time-range';

/** The range cuts the first bucket, as on the server. */
const BUCKETS = [
  { from_ms: 500, to_ms: 1000 },
  { from_ms: 1000, to_ms: 2000 },
  { from_ms: 2000, to_ms: 3000 },
];

describe('a brush selection of the histogram', () => {
  it('selects whole bars, with both ends inclusive', () => {
    expect(brushedRange(BUCKETS, 1200, 2100)).toEqual(absoluteRange(1000, 2999));
    expect(brushedRange(BUCKETS, 2100, 1200)).toEqual(absoluteRange(1000, 2999));
    expect(brushedRange(BUCKETS, 1999, 1999)).toEqual(absoluteRange(1000, 1999));
  });

  it('ends where the histogram ends', () => {
    expect(brushedRange(BUCKETS, -100, 99_999)).toEqual(absoluteRange(500, 2999));
    expect(rangeOfBuckets(BUCKETS, 9, -9)).toEqual(absoluteRange(500, 2999));
    expect(brushedRange([], 0, 1)).toBeNull();
  });

  it('finds the bar under every instant', () => {
    fc.assert(
      fc.property(fc.integer({ min: 500, max: 2999 }), (ms) => {
        const bucket = BUCKETS[bucketAt(BUCKETS, ms)];
        expect(bucket && bucket.from_ms <= ms && ms < bucket.to_ms).toBe(true);
      }),
    );
  });
});
