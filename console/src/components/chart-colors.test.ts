import fc from 'fast-check';
import { expect, it } from 'vitest';
import { seriesColor, valueColors } from './chart-colors';

let fields = 0;
/** Field name without assigned colors. */
const fresh = () => `field ${(fields += 1)}`;

it('a value keeps its color when other values appear or disappear', () => {
  const field = fresh();
  const [, gold] = valueColors(field, ['red', 'gold', 'blue'], false);
  expect(valueColors(field, ['gold'], false)).toEqual([gold]);
  expect(valueColors(field, ['green', 'blue', 'gold'], false)[2]).toBe(gold);
  expect(valueColors(fresh(), ['gold'], true)).not.toEqual([gold]);
});

it('log levels have their usual colors at any rank', () => {
  const [critical, info] = [seriesColor(4, false), seriesColor(0, false)];
  expect(valueColors(fresh(), ['info', 'critical'], false)).toEqual([info, critical]);
  expect(valueColors(fresh(), ['CRITICAL', 'INFO'], false)).toEqual([critical, info]);
  const two = valueColors(fresh(), ['critical', 'fatal'], false);
  expect(two[0]).toBe(critical);
  expect(two[1]).not.toBe(critical);
});

it('colors of one chart are distinct, and the first values keep theirs', () => {
  const chart = fc.uniqueArray(fc.string(), { minLength: 1, maxLength: 9 });
  fc.assert(
    fc.property(fc.array(chart, { minLength: 2, maxLength: 6 }), (charts) => {
      const field = fresh();
      const first = valueColors(field, charts[0] as string[], false);
      for (const values of charts) expect(new Set(valueColors(field, values, false)).size).toBe(values.length);
      expect(valueColors(field, charts[0] as string[], false)).toEqual(first);
    }),
  );
});
