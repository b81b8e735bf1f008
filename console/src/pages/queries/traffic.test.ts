import { describe, expect, it } from 'vitest';
import type { SearchResponse } from '../../api/search';
import { readTraffic, readView, trafficBody, type TrafficRecord, type TrafficView, writeView } from './traffic';

const VIEW: TrafficView = { range: '24h', tenant: 'a b', name: 'search', onlyFailed: true, sort: 'recent' };

describe('the view of the traffic', () => {
  it('round-trips through the URL', () => {
    expect(readView(writeView(VIEW, new URLSearchParams('find=x')))).toEqual(VIEW);
    expect(writeView(VIEW, new URLSearchParams('find=x')).get('find')).toBe('x');
    const start = readView(new URLSearchParams());
    expect(writeView(start, new URLSearchParams()).toString()).toBe('');
  });

  it('ignores an unknown range', () => {
    expect(readView(new URLSearchParams('range=1y')).range).toBe('1h');
  });
});

describe('trafficBody', () => {
  it('contains only the selected filters', () => {
    const text = JSON.stringify(trafficBody(VIEW, 'Europe/Zurich'));
    expect(text).toContain('{"term":{"tenant":"a b"}}');
    expect(text).toContain('"gte":"now-24h"');
    expect(text).toContain('"fixed_interval":"1800000ms"');
    const open = trafficBody({ range: '1h', tenant: null, name: null, onlyFailed: false, sort: 'slow' }, 'UTC') as { query: unknown; sort: unknown };
    expect(open.query).toEqual({ bool: { filter: [{ range: { '@timestamp': { gte: 'now-1h' } } }] } });
    expect(open.sort).toEqual([{ took_ms: 'desc' }]);
  });
});

describe('readTraffic', () => {
  it('reads buckets, tenants and empty percentiles', () => {
    const response = {
      hits: { total: { value: 3, relation: 'eq' }, hits: [] },
      aggregations: {
        over_time: { buckets: [{ key: 1000, doc_count: 3, took: { values: { '50.0': 1, '95.0': 2, '99.0': null } } }] },
        tenants: { buckets: [{ key: 'acme', doc_count: 3, took: { values: {} }, work: { value: 12 } }] },
        names: { buckets: [{ key: 'search', doc_count: 2 }, { key: 'bulk', doc_count: 1 }] },
        failed: { doc_count: 1 },
      },
    } as unknown as SearchResponse<TrafficRecord>;
    const traffic = readTraffic(response);
    expect(traffic.percentiles).toEqual([{ p50: 1, p95: 2, p99: null }]);
    expect(traffic.tenants).toEqual([{ tenant: 'acme', requests: 3, workMs: 12, p50: null, p95: null, p99: null }]);
    expect([traffic.total, traffic.failed, traffic.names]).toEqual([3, 1, ['bulk', 'search']]);
  });
});
