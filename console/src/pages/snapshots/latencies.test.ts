import { expect, test } from 'vitest';
import { latencyRows, logScale } from './latencies';

test('the axis covers all values in whole decades', () => {
  const { ticks, at } = logScale([0.06, 31.7]);
  expect(ticks.map((tick) => Number(tick.toPrecision(3)))).toEqual([0.01, 0.1, 1, 10, 100]);
  expect(at(1)).toBeCloseTo(50);
  expect(at(0.01)).toBeCloseTo(0);
  expect(at(100)).toBeCloseTo(100);
});

test('the scale handles no value, one value and values out of range', () => {
  expect(logScale([]).ticks).toEqual([1, 10]);
  expect(logScale([1]).ticks).toEqual([1, 10]);
  const { at } = logScale([5]);
  expect([at(0), at(1000)]).toEqual([0, 100]);
});

test('missing percentiles of a report become 0', () => {
  const requests = { ranged_read: { count: 2, total_size_bytes: 10, bytes_per_second_each: 5, latency_ms: { '50.0': 1, '100.0': 3 } } };
  expect(latencyRows({ requests })).toEqual([{ kind: 'ranged read', count: 2, bytes: 10, bytesPerSecond: 5, p50: 1, p90: 0, p99: 0, max: 3 }]);
});
