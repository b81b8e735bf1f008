import { expect, test } from 'vitest';
import type { SearchResponse } from '../../api/search';
import { decodeState } from '../discover/state';
import { discoverAddress, panelSearch, questionOf, readPanel } from './search';
import type { Panel } from './state';

const CONTEXT = { source: 'web', timeField: '@timestamp', range: { from: 'now-1d', to: 'now' }, text: '', zone: 'UTC', nowMs: Date.UTC(2026, 10, 22, 12) };
const TOP: Panel = { title: '', kind: 'top', field: 'url.path' };
const TIME: Panel = { title: '', kind: 'time', field: 'status' };

const response = (total: number, aggregations: SearchResponse['aggregations']): SearchResponse => ({
  took: 1,
  timed_out: false,
  _shards: { total: 1, successful: 1, skipped: 0, failed: 0 },
  hits: { total: { value: total, relation: 'eq' }, hits: [] },
  ...(aggregations && { aggregations }),
});

test('time, shared query, panel query and panel filters are combined with AND', () => {
  const search = new URLSearchParams({ i: 'other', q: 'status: 404', f: '[{"op":"exists","field":"a"}]' }).toString();
  const made = panelSearch(TOP, search, { ...CONTEXT, text: 'host: a' });
  expect(made.index).toBe('other');
  expect(made.body).toMatchObject({
    query: {
      bool: {
        filter: [
          { range: { '@timestamp': { gte: 'now-1d', lte: 'now', time_zone: 'UTC' } } },
          { kql: { query: 'host: a', time_zone: 'UTC' } },
          { kql: { query: 'status: 404', time_zone: 'UTC' } },
          { exists: { field: 'a' } },
        ],
      },
    },
    aggs: { values: { terms: { field: 'url.path', size: 10 } } },
  });
  expect(panelSearch(TOP, '', CONTEXT).index).toBe('web');
});

test('the interval fits the range, and empty intervals are included', () => {
  const { intervalMs, body } = panelSearch(TIME, '', CONTEXT);
  expect(intervalMs).toBe(30 * 60_000);
  expect(body).toMatchObject({ aggs: { values: { date_histogram: { min_doc_count: 0, extended_bounds: { min: CONTEXT.nowMs - 86_400_000, max: CONTEXT.nowMs } } } } });
});

test('the interval also fits a range of plain dates', () => {
  const { intervalMs, body } = panelSearch(TIME, '', { ...CONTEXT, range: { from: '2021-01-01', to: '2026-12-31' } });
  expect(intervalMs).toBeGreaterThan(7 * 86_400_000);
  expect(body).toMatchObject({ aggs: { values: { date_histogram: { extended_bounds: { min: Date.UTC(2021, 0, 1), max: Date.UTC(2027, 0, 1) - 1 } } } } });
});

test('HTTP statuses are grouped by class, and the rest is one series', () => {
  const bucket = (key: number, doc_count: number, values: [number, number][]) => ({ key, doc_count, values: { buckets: values.map(([key, doc_count]) => ({ key, doc_count })) } });
  const answer = response(12, { values: { buckets: [bucket(0, 9, [[200, 4], [404, 2], [403, 1]]), bucket(60, 3, [[500, 3]])] } });
  expect(readPanel(TIME, answer)).toEqual({
    kind: 'time',
    total: 12,
    times: [0, 60],
    series: [
      { label: '2xx', values: [4, 0] },
      { label: '4xx', values: [3, 0] },
      { label: '5xx', values: [0, 3] },
      { label: 'other', values: [2, 0] },
    ],
  });
});

test('top values report other and missing values', () => {
  const answer = response(10, { values: { buckets: [{ key: '/', doc_count: 4 }], sum_other_doc_count: 3 }, some: { doc_count: 7 } });
  expect(readPanel(TOP, answer)).toEqual({ kind: 'top', total: 10, values: [{ key: '/', text: '/', count: 4 }], other: 3, missing: 3 });
  expect(readPanel(TOP, response(0, undefined))).toBeNull();
});

test('the filter value of a bar fits the type of its field', () => {
  const answer = response(9, { values: { buckets: [{ key: 1, key_as_string: 'true', doc_count: 4 }, { key: 404, key_as_string: '404', doc_count: 3 }, { key: '/', doc_count: 2 }] } });
  const read = readPanel(TOP, answer);
  expect(read?.kind === 'top' && read.values.map(({ key }) => key)).toEqual(['true', 404, '/']);
});

test('each interval requests enough values to count rare statuses in their class', () => {
  expect(panelSearch(TIME, '', CONTEXT).body).toMatchObject({ aggs: { values: { aggs: { values: { terms: { size: 100 } } } } } });
});

test('rare values are one series that contains all of their events', () => {
  const values = Array.from({ length: 12 }, (_, at) => ({ key: `v${at}`, doc_count: 20 - at }));
  const answer = response(300, { values: { buckets: [{ key: 0, doc_count: 200, values: { buckets: [...values, { key: 'other', doc_count: 5 }] } }] } });
  const read = readPanel(TIME, answer);
  const series = read?.kind === 'time' ? read.series : [];
  expect(series.map(({ label }) => label)).toEqual(['v0', 'v1', 'v2', 'v3', 'v4', 'v5', 'v6', 'v7', 'other']);
  expect(series.reduce((sum, { values }) => sum + (values[0] ?? 0), 0)).toBe(200);
});

test.each([
  ['kql', 'b: 1 or c: 2', { text: 'host: a and (b: 1 or c: 2)', language: 'kql', filters: [] }],
  ['lucene', 'b:1', { text: 'b:1', language: 'lucene', filters: [{ op: 'dsl', dsl: { kql: { query: 'host: a', time_zone: 'UTC' } } }] }],
  ['dsl', '{"match_all":{}}', { text: '{"match_all":{}}', language: 'dsl', filters: [{ op: 'dsl', dsl: { kql: { query: 'host: a', time_zone: 'UTC' } } }] }],
  ['lucene', '', { text: 'host: a', language: 'kql', filters: [] }],
])('Discover and the estimate use the query of a panel in %s, and the shared query', (l, q, expected) => {
  const search = new URLSearchParams({ l, q, id: 'run', live: '1' }).toString();
  const context = { ...CONTEXT, text: 'host: a' };
  expect(decodeState(discoverAddress(search, context)).state).toMatchObject({ ...expected, source: 'web', range: CONTEXT.range, run: null, live: false });
  expect(JSON.stringify(questionOf(search, context))).toContain('host: a');
});
