import { type AlertHit, type AlertName, type AlertsResponse, SEVERITIES, STATUSES } from '../../api/alerts';
import type { Bucket } from '../../api/search';
import { intervalFor } from '../../lib/chart';
import { queryDsl } from '../../lib/query-dsl';
import { resolveBound } from '../../lib/time-range';
import type { AlertsState } from './state';

/** Alerts added by "Show more". */
export const PAGE_SIZE = 200;
/** Maximum of `from` + `size` of a search. */
export const ROWS_MAX = 10_000;
/** Maximum number of alerts that one request changes. */
export const CHANGES_MAX = 10_000;
const BUCKETS_MAX = 60;
const FALLBACK_INTERVAL_MS = 3_600_000;
/** Fields of the table. The drawer fetches the whole alert. */
const ROW_FIELDS = ['@timestamp', 'rule.id', 'rule.name', 'tenant', 'firn.alert'];

const STATUS = 'firn.alert.status';
const SEVERITY = 'firn.alert.severity';

/** Returns the bounds of the time range in ms, if the browser can resolve them. */
function boundsOf({ range }: AlertsState, nowMs: number, zone: string): [number, number] | null {
  const from = resolveBound(range.from, 'from', nowMs, zone);
  const to = resolveBound(range.to, 'to', nowMs, zone);
  return from !== null && to !== null && to > from ? [from, to] : null;
}

/** Interval of the histogram. */
export function intervalMs(state: AlertsState, nowMs: number, zone: string): number {
  const bounds = boundsOf(state, nowMs, zone);
  return bounds ? intervalFor(bounds[1] - bounds[0], BUCKETS_MAX) : FALLBACK_INTERVAL_MS;
}

/** Conditions of the filters that apply to all parts of the page. */
function sharedFilters({ range, text }: AlertsState, zone: string): object[] {
  const kql = queryDsl(text, 'kql', zone);
  return [{ range: { '@timestamp': { gte: range.from, lte: range.to, time_zone: zone } } }, ...(kql ? [kql] : [])];
}

const statusFilter = ({ status }: AlertsState): object[] => (status === 'all' ? [] : [{ term: { [STATUS]: status } }]);
const severityFilter = ({ severities }: AlertsState): object[] => (severities.length === 0 ? [] : [{ terms: { [SEVERITY]: severities } }]);

/**
 * Search of the page: one request for rows, histogram and counts. The counts by status and by severity ignore their own
 * filter, so that they tell what another choice would show.
 */
export function alertsBody(state: AlertsState, { rows, zone, nowMs }: { rows: number; zone: string; nowMs: number }): object {
  const [status, severity] = [statusFilter(state), severityFilter(state)];
  const bounds = boundsOf(state, nowMs, zone);
  const overTime = {
    date_histogram: {
      field: '@timestamp',
      fixed_interval: `${intervalMs(state, nowMs, zone)}ms`,
      time_zone: zone,
      min_doc_count: 0,
      ...(bounds && { extended_bounds: { min: bounds[0], max: bounds[1] } }),
    },
    aggs: { severities: { terms: { field: SEVERITY, size: 10 } } },
  };
  return {
    size: Math.min(rows, ROWS_MAX),
    _source: ROW_FIELDS,
    track_total_hits: true,
    sort: [{ '@timestamp': { order: 'desc', unmapped_type: 'date' } }],
    query: { bool: { filter: sharedFilters(state, zone) } },
    post_filter: { bool: { filter: [...status, ...severity] } },
    aggs: {
      shown: { filter: { bool: { filter: [...status, ...severity] } }, aggs: { over_time: overTime } },
      by_status: { filter: { bool: { filter: severity } }, aggs: { values: { terms: { field: STATUS, size: 10 } } } },
      by_severity: { filter: { bool: { filter: status } }, aggs: { values: { terms: { field: SEVERITY, size: 10 } } } },
    },
  };
}

/** Query of all matching alerts up to the newest one that the page shows: an alert that arrives meanwhile is not changed unseen. */
export function matchingQuery(state: AlertsState, newest: string, zone: string): object {
  return { bool: { filter: [...sharedFilters(state, zone), ...statusFilter(state), ...severityFilter(state), { range: { '@timestamp': { lte: newest } } }] } };
}

export const nameOf = ({ _index, _id }: AlertHit): AlertName => ({ index: _index, id: _id });
export const keyOf = ({ _index, _id }: AlertHit): string => `${_index}/${_id}`;

interface Buckets {
  buckets?: Bucket[];
}

/** Converts the response to the data of the page. */
export function readAlerts(response: AlertsResponse) {
  const { shown, by_status: byStatus, by_severity: bySeverity } = (response.aggregations ?? {}) as Record<string, Record<string, Buckets> | undefined>;
  const buckets = shown?.['over_time']?.buckets ?? [];
  const countIn = (of: Buckets | undefined, key: string) => of?.buckets?.find((bucket) => bucket.key === key)?.doc_count ?? 0;
  return {
    total: response.hits.total?.value ?? 0,
    hits: response.hits.hits as AlertHit[],
    times: buckets.map(({ key }) => Number(key)),
    /** Counts per bucket, of the severities that occur; the highest first. */
    series: SEVERITIES.map((severity) => ({ severity, values: buckets.map((bucket) => countIn(bucket['severities'] as Buckets, severity)) }))
      .filter(({ values }) => values.some((value) => value > 0))
      .reverse(),
    statuses: STATUSES.map((status) => ({ status, count: countIn(byStatus?.['values'], status) })),
    severities: SEVERITIES.map((severity) => ({ severity, count: countIn(bySeverity?.['values'], severity) })),
  };
}
