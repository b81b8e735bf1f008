import fc from 'fast-check';
import { expect, it } from 'vitest';
import { seriesColor, valueColors } from './chart-colors';

let fields = 0;
/** Nothing is remembered of a field that nobody has seen. */
const fresh = () => `field ${(fields += 1)}`;

it('a value keeps its colour when others come before it, or are gone', () => {
  const field = fresh();
  const [, gold] = valueColors(field, ['red', 'gold', 'blue'], false);
  expect(valueColors(field, ['gold'], false)).toEqual([gold]);
  expect(valueColors(field, ['green', 'blue', 'gold'], false)[2]).toBe(gold);
  expect(valueColors(fresh(), ['gold'], true)).not.toEqual([gold]);
});

it('levels have the colours that they usually have, whatever their rank', () => {
  const [critical, info] = [seriesColor(4, false), seriesColor(0, false)];
  expect(valueColors(fresh(), ['info', 'critical'], false)).toEqual([info, critical]);
  expect(valueColors(fresh(), ['CRITICAL', 'INFO'], false)).toEqual([critical, info]);
  const two = valueColors(fresh(), ['critical', 'fatal'], false);
  expect(two[0]).toBe(critical);
  expect(two[1]).not.toBe(critical);
});

it('colours of one chart are apart, and those of the first values stay', () => {
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
