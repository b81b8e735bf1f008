import type { SearchResponse } from '../../api/search';
import { intervalFor } from '../../lib/chart';

/** Record of the stream `.firn-traffic`: a request and its cost. */
export interface TrafficRecord {
  '@timestamp': number;
  request: { id: string; method: string; name: string };
  user?: { name?: string };
  tenant?: string;
  view_as?: string;
  index?: string;
  status: number;
  took_ms: number;
  bytes?: { in?: number; out?: number; repository?: number };
  shards?: number;
  segments?: number;
  hits?: number;
  written?: number;
  repository_requests?: number;
  error?: { type?: string };
}

/** Record of the stream `.firn-audit`. */
export interface AuditRecord {
  '@timestamp': number;
  event: { action: string; outcome?: string };
  user?: { name?: string };
  apikey?: { name?: string; id?: string };
  tenant?: string;
  /** Tenant that an operator viewed as, and the reason. */
  view?: { tenant?: string; reason?: string };
  origin?: { address?: string };
  request?: { method?: string; name?: string };
  url?: { path?: string };
  action?: string;
  status?: number;
  error?: { type?: string };
}

export const TRAFFIC_STREAM = '.firn-traffic';
export const AUDIT_STREAM = '.firn-audit';

export const RANGES = [
  { value: '15m', label: '15 min', ms: 900_000 },
  { value: '1h', label: '1 h', ms: 3_600_000 },
  { value: '24h', label: '24 h', ms: 86_400_000 },
  { value: '7d', label: '7 days', ms: 7 * 86_400_000 },
  { value: '30d', label: '30 days', ms: 30 * 86_400_000 },
];

export const SORTS = [
  { value: 'slow', label: 'Slowest' },
  { value: 'recent', label: 'Most recent' },
];

/** State of the page, stored in the URL. */
export interface TrafficView {
  range: string;
  tenant: string | null;
  /** Name of the endpoint, such as `search`. */
  name: string | null;
  onlyFailed: boolean;
  sort: 'slow' | 'recent';
}

/** Maximum number of rows. Discover shows the whole stream. */
const ROWS = 200;
const BUCKETS_MAX = 60;
const TENANTS = 50;

export function readView(params: URLSearchParams): TrafficView {
  const range = params.get('range');
  return {
    range: RANGES.some(({ value }) => value === range) ? (range as string) : '1h',
    tenant: params.get('tenant'),
    name: params.get('request'),
    onlyFailed: params.get('failed') === '1',
    sort: params.get('order') === 'recent' ? 'recent' : 'slow',
  };
}

export function writeView(view: TrafficView, before: URLSearchParams): URLSearchParams {
  const after = new URLSearchParams(before);
  const set = (key: string, value: string | null) => (value ? after.set(key, value) : after.delete(key));
  set('range', view.range === '1h' ? null : view.range);
  set('tenant', view.tenant);
  set('request', view.name);
  set('failed', view.onlyFailed ? '1' : null);
  set('order', view.sort === 'recent' ? 'recent' : null);
  return after;
}

/** Interval of the chart. */
export function intervalMs(view: TrafficView): number {
  return intervalFor(rangeMs(view), BUCKETS_MAX);
}

function rangeMs(view: TrafficView): number {
  return RANGES.find(({ value }) => value === view.range)?.ms ?? 3_600_000;
}

/** Search of the page: one request for rows, chart and tenants. */
export function trafficBody(view: TrafficView, zone: string): object {
  const filter: object[] = [{ range: { '@timestamp': { gte: `now-${view.range}` } } }];
  if (view.tenant) filter.push({ term: { tenant: view.tenant } });
  if (view.name) filter.push({ term: { 'request.name': view.name } });
  if (view.onlyFailed) filter.push({ range: { status: { gte: 400 } } });
  const percentiles = { percentiles: { field: 'took_ms', percents: [50, 95, 99] } };
  return {
    size: ROWS,
    track_total_hits: true,
    sort: view.sort === 'slow' ? [{ took_ms: 'desc' }] : [{ '@timestamp': 'desc' }],
    query: { bool: { filter } },
    aggs: {
      over_time: { date_histogram: { field: '@timestamp', fixed_interval: `${intervalMs(view)}ms`, time_zone: zone }, aggs: { took: percentiles } },
      took: percentiles,
      tenants: { terms: { field: 'tenant', size: TENANTS }, aggs: { took: percentiles, work: { sum: { field: 'took_ms' } } } },
      names: { terms: { field: 'request.name', size: 100 } },
      failed: { filter: { range: { status: { gte: 400 } } } },
    },
  };
}

/** Search of the latest audit records. */
export function auditBody(range: string): object {
  return { size: 500, track_total_hits: true, sort: [{ '@timestamp': 'desc' }], query: { range: { '@timestamp': { gte: `now-${range}` } } } };
}

export interface Percentiles {
  p50: number | null;
  p95: number | null;
  p99: number | null;
}

export function readPercentiles(aggregation: unknown): Percentiles {
  const values = (aggregation as { values?: Record<string, number | null> } | undefined)?.values ?? {};
  return { p50: values['50.0'] ?? null, p95: values['95.0'] ?? null, p99: values['99.0'] ?? null };
}

export interface TenantTraffic extends Percentiles {
  tenant: string;
  requests: number;
  workMs: number;
}

/** Converts the response to the data of the page. */
export function readTraffic(response: SearchResponse<TrafficRecord>) {
  const { over_time: overTime, took, tenants, names, failed } = response.aggregations ?? {};
  const buckets = overTime?.buckets ?? [];
  return {
    total: response.hits.total?.value ?? 0,
    failed: failed?.doc_count ?? 0,
    took: readPercentiles(took),
    times: buckets.map(({ key }) => Number(key)),
    percentiles: buckets.map((bucket) => readPercentiles(bucket['took'])),
    tenants: (tenants?.buckets ?? []).map(
      (bucket): TenantTraffic => ({
        tenant: String(bucket.key),
        requests: bucket.doc_count,
        workMs: (bucket['work'] as { value?: number } | undefined)?.value ?? 0,
        ...readPercentiles(bucket['took']),
      }),
    ),
    names: (names?.buckets ?? []).map(({ key }) => String(key)).sort(),
    records: response.hits.hits.map(({ _source }) => _source),
  };
}
