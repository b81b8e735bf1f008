import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { intervalFor, spanOf, stack, timeTicks } from './chart';

describe('stack', () => {
  it('adds up values and counts missing ones as zero', () => {
    expect(stack([[1, 2], [3, null], [0, 5]])).toEqual([[1, 2], [4, 2], [4, 7]]);
    expect(stack([])).toEqual([]);
  });

  it('ends at the sum of all', () => {
    const rows = fc.array(fc.array(fc.nat(1000), { minLength: 3, maxLength: 3 }), { minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(rows, (series) => {
        const sums = [0, 1, 2].map((index) => series.reduce((sum, values) => sum + (values[index] ?? 0), 0));
        expect(stack(series).at(-1)).toEqual(sums);
      }),
    );
  });
});

describe('spanOf', () => {
  it('ends with the last bucket, also if it is the only one', () => {
    expect(spanOf([1000, 2000, 3000], 500)).toEqual([1000, 4000]);
    expect(spanOf([1000], 500)).toEqual([1000, 1500]);
  });
});

describe('timeTicks', () => {
  const tick = timeTicks('Asia/Kolkata', 'en');
  const midnight = Date.UTC(2026, 10, 21, 18, 30);
  const hour = 3_600_000;

  it('writes the time within a day, and the date at midnight of the zone', () => {
    expect([midnight - 6 * hour, midnight, midnight + 6 * hour].map((ms) => tick(ms, 6 * hour))).toEqual(['18:00', 'Nov 22', '06:00']);
    expect(tick(midnight, 600_000)).toBe('00:00');
  });

  it('knows midnight in every locale', () => {
    const arabic = timeTicks('Asia/Kolkata', 'ar-EG');
    expect(arabic(midnight, 6 * hour)).toBe(arabic(midnight, 24 * hour));
  });

  it('is as precise as the tick distance', () => {
    expect([tick(midnight, 24 * hour), tick(midnight, 31 * 24 * hour), tick(midnight + 1500, 1000), tick(midnight + 1500, 100)]).toEqual(['Nov 22', 'Nov 2026', '00:00:01', '00:01.500']);
  });
});

describe('intervalFor', () => {
  it('divides a span into at most the given number of buckets', () => {
    expect(intervalFor(15 * 60_000, 60)).toBe(30_000);
    expect(intervalFor(86_400_000, 60)).toBe(1_800_000);
    expect(intervalFor(0, 60)).toBe(1000);
    expect(intervalFor(1e13, 10)).toBe(30 * 86_400_000);
  });
});
