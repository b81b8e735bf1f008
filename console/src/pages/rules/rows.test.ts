import { expect, test } from 'vitest';
import type { Aggregation, SearchResponse } from '../../api/search';
import { decodeState } from '../alerts/state';
import { alertsPath, evaluationOf, holesText, readRuleAlerts, ruleRows, ruleSummary, scopeOf, scopeTitle } from './rows';

const response = {
  took: 1,
  timed_out: false,
  _shards: { total: 1, successful: 1, skipped: 0, failed: 0 },
  hits: { hits: [] },
  aggregations: {
    rules: { buckets: [{ key: 'root', doc_count: 9, week: { doc_count: 4 }, last: { value: 1000 } }] },
    recent: { doc_count: 4, rules: { buckets: [{ key: 'root', doc_count: 4, days: { buckets: [0, 0, 0, 3, 0, 0, 1].map((doc_count, key) => ({ key, doc_count })) } }] } } as Aggregation,
  },
} satisfies SearchResponse;

const HOLES = { count: 2, since: '2026-01-01T00:00:00Z', pipelines: ['dns', 'web'] };

test('rules have the counts of their alerts', () => {
  const rows = ruleRows(
    {
      root: ruleSummary('root', { type: 'query', name: 'Root', query: '*', severity: 'high', channels: ['mail', 'chat'], tenant: 'acme' }),
      log: ruleSummary('log', { type: 'sigma', sigma: 'title: Log cleared\nlevel: critical', enabled: false }),
    },
    readRuleAlerts(response),
    { root: { enabled: true, evaluated_by: ['web', 'dns'], unmapped_in: [], error: null, cpu: { core_percent: 12.5 }, throttled: { reason: 'budget exhausted', until: '2026-01-01T00:00:00Z', evaluated: false }, open_holes: HOLES } },
  );
  expect(rows).toEqual([
    { id: 'root', name: 'Root', type: 'query', severity: 'high', enabled: true, tenant: 'acme', channels: 'mail, chat', evaluation: { text: 'web, dns', isProblem: false }, cpu: 12.5, throttled: 'budget exhausted', holes: HOLES, count: 4, lastMs: 1000, days: [0, 0, 0, 3, 0, 0, 1] },
    { id: 'log', name: 'Log cleared', type: 'sigma', severity: 'critical', enabled: false, tenant: '', channels: '', evaluation: null, cpu: null, throttled: '', holes: null, count: 0, lastMs: null, days: [] },
  ]);
});

test('a column shows the tenants and channels that rules have', () => {
  const row = (members: object) => ruleRows({ r: { ...ruleSummary('r', { type: 'query', query: '*' }), ...members } }, new Map(), {});
  const [tenant, channels, both, none] = [row({ tenant: 'acme' }), row({ channels: ['mail', 'chat'] }), row({ tenant: 'acme', channels: ['mail'] }), row({})];
  expect([none, tenant, channels, both, [...tenant, ...channels], []].map(scopeTitle)).toEqual([null, 'Tenant', 'Channels', 'Tenant, Channels', 'Tenant, Channels', null]);
  expect([none, tenant, channels, both].flatMap((rows) => rows.map(scopeOf))).toEqual(['', 'acme', 'mail, chat', 'acme · mail']);
});

test('holes say where they are and since when', () => {
  const text = (holes: Parameters<typeof holesText>[0]) => holesText(holes, (ms) => `T${ms}`);
  expect(text(HOLES)).toBe(`Not evaluated on events of the pipelines dns, web since T${Date.UTC(2026, 0, 1)}`);
  expect(text({ ...HOLES, pipelines: ['web'] })).toContain('the pipeline web since');
  expect(text({ count: 0 })).toBe('Evaluated on each event');
});

test('without alert indices, no rule has alerts', () => {
  expect(readRuleAlerts({ ...response, aggregations: {} }).size).toBe(0);
});

test('a rule leads to all of its alerts', () => {
  expect(decodeState(alertsPath('a"b').split('?')[1] ?? '')).toMatchObject({ status: 'all', text: 'rule.id: "a\\"b"' });
});

test.each([
  [{ enabled: true, evaluated_by: ['web'], unmapped_in: ['dns'], error: null }, 'web', false],
  [{ enabled: false, evaluated_by: [], unmapped_in: [], error: null }, 'disabled', false],
  [{ enabled: true, evaluated_by: [], unmapped_in: ['dns', 'web'], error: null }, 'no log source in dns, web', true],
  [{ enabled: true, evaluated_by: [], unmapped_in: [], error: null }, 'no pipeline', true],
  [{ enabled: false, evaluated_by: [], unmapped_in: [], error: '[x] is unknown' }, '[x] is unknown', true],
])('an enabled rule that no pipeline evaluates is a problem: %j', (stats, text, isProblem) => expect(evaluationOf(stats)).toEqual({ text, isProblem }));
