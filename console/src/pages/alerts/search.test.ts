import { expect, test } from 'vitest';
import type { AlertsResponse } from '../../api/alerts';
import { alertsBody, intervalMs, matchingQuery, readAlerts } from './search';
import { EMPTY_STATE } from './state';

const NOW_MS = Date.UTC(2026, 10, 29, 12);
const STATE = { ...EMPTY_STATE, severities: ['high' as const], text: 'user.name: root' };
const SHARED = [{ range: { '@timestamp': { gte: 'now-7d', lte: 'now', time_zone: 'UTC' } } }, { kql: { query: 'user.name: root', time_zone: 'UTC' } }];
const OPEN = { term: { 'firn.alert.status': 'open' } };
const HIGH = { terms: { 'firn.alert.severity': ['high'] } };

test('rows and histogram have all filters, the counts of a choice ignore their own', () => {
  const body = alertsBody(STATE, { rows: 400, zone: 'UTC', nowMs: NOW_MS });
  expect(body).toMatchObject({
    size: 400,
    query: { bool: { filter: SHARED } },
    post_filter: { bool: { filter: [OPEN, HIGH] } },
    aggs: {
      shown: { filter: { bool: { filter: [OPEN, HIGH] } } },
      by_status: { filter: { bool: { filter: [HIGH] } } },
      by_severity: { filter: { bool: { filter: [OPEN] } } },
    },
  });
  expect(alertsBody(STATE, { rows: 50_000, zone: 'UTC', nowMs: NOW_MS })).toMatchObject({ size: 10_000 });
});

test('the histogram has a readable number of bars', () => {
  expect(intervalMs(STATE, NOW_MS, 'UTC')).toBe(3 * 3_600_000);
  expect(intervalMs({ ...STATE, range: { from: 'now-30d', to: 'now' } }, NOW_MS, 'UTC')).toBe(12 * 3_600_000);
});

test('a change of all matching alerts ends with the newest one that was shown', () => {
  expect(matchingQuery(STATE, '2026-11-29T11:00:00Z', 'UTC')).toEqual({ bool: { filter: [...SHARED, OPEN, HIGH, { range: { '@timestamp': { lte: '2026-11-29T11:00:00Z' } } }] } });
});

test('a response becomes series by severity and counts by choice', () => {
  const values = (counts: Record<string, number>) => ({ buckets: Object.entries(counts).map(([key, count]) => ({ key, doc_count: count })) });
  const response = {
    took: 1,
    timed_out: false,
    _shards: { total: 1, successful: 1, skipped: 0, failed: 0 },
    hits: { total: { value: 3, relation: 'eq' }, hits: [] },
    aggregations: {
      shown: { doc_count: 3, over_time: { buckets: [{ key: 0, doc_count: 2, severities: values({ low: 2 }) }, { key: 10, doc_count: 1, severities: values({ critical: 1 }) }] } },
      by_status: { doc_count: 4, values: values({ open: 3, closed: 1 }) },
      by_severity: { doc_count: 3, values: values({ low: 2, critical: 1 }) },
    },
  } as unknown as AlertsResponse;
  const read = readAlerts(response);
  expect(read.times).toEqual([0, 10]);
  expect(read.series).toEqual([{ severity: 'critical', values: [0, 1] }, { severity: 'low', values: [2, 0] }]);
  expect(read.statuses.map(({ count }) => count)).toEqual([3, 0, 1]);
  expect(read.severities.find(({ severity }) => severity === 'low')?.count).toBe(2);
});

test('without alert indices, the response has no aggregations', () => {
  const read = readAlerts({ took: 0, timed_out: false, _shards: { total: 0, successful: 0, skipped: 0, failed: 0 }, hits: { total: { value: 0, relation: 'eq' }, hits: [] } });
  expect(read).toMatchObject({ total: 0, times: [], series: [] });
});
