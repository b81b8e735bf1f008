import { expect, test } from 'vitest';
import type { SearchResponse } from '../../api/search';
import { decodeState } from '../alerts/state';
import { alertsPath, readRuleAlerts, ruleRows, ruleSummary } from './rows';

const response = {
  took: 1,
  timed_out: false,
  _shards: { total: 1, successful: 1, skipped: 0, failed: 0 },
  hits: { hits: [] },
  aggregations: { rules: { buckets: [{ key: 'root', doc_count: 9, week: { doc_count: 4 }, last: { value: 1000 } }] } },
} satisfies SearchResponse;

test('rules have the counts of their alerts', () => {
  const rows = ruleRows(
    {
      root: ruleSummary('root', { type: 'query', name: 'Root', query: '*', severity: 'high', channels: ['mail', 'chat'], tenant: 'acme' }),
      log: ruleSummary('log', { type: 'sigma', sigma: 'title: Log cleared\nlevel: critical', enabled: false }),
    },
    readRuleAlerts(response),
    { root: { cpu: { core_percent: 12.5 }, throttled: { reason: 'budget exhausted', until: '2026-01-01T00:00:00Z', evaluated: false } } },
  );
  expect(rows).toEqual([
    { id: 'root', name: 'Root', type: 'query', severity: 'high', enabled: true, tenant: 'acme', channels: 'mail, chat', cpu: 12.5, throttled: 'budget exhausted', count: 4, lastMs: 1000 },
    { id: 'log', name: 'Log cleared', type: 'sigma', severity: 'critical', enabled: false, tenant: '', channels: '', cpu: null, throttled: '', count: 0, lastMs: null },
  ]);
});

test('without alert indices, no rule has alerts', () => {
  expect(readRuleAlerts({ ...response, aggregations: {} }).size).toBe(0);
});

test('a rule leads to all of its alerts', () => {
  expect(decodeState(alertsPath('a"b').split('?')[1] ?? '')).toMatchObject({ status: 'all', text: 'rule.id: "a\\"b"' });
});
