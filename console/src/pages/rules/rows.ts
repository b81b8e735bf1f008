import type { Severity } from '../../api/alerts';
import type { OpenHoles, RuleDefinition, RuleEvaluation, RuleStats, RuleSummary, RuleType } from '../../api/detection-rules';
import type { Aggregation, Bucket, SearchResponse } from '../../api/search';
import { kqlIs } from '../../lib/query-dsl';
import { ruleName, ruleSeverity } from './sigma';

/** Alerts of one rule. */
export interface RuleAlerts {
  /** In the last seven days. */
  count: number;
  /** Time of the newest alert in ms. */
  lastMs: number | null;
  /** Alerts of each of the last seven days, today last; empty if there are none. */
  days: number[];
}

/** Where a rule is evaluated, in words. */
export interface Evaluation {
  text: string;
  /** The rule is enabled, and raises no alert all the same. */
  isProblem: boolean;
}

/** Row of the list of rules. */
export interface RuleRow extends RuleAlerts {
  id: string;
  name: string;
  type: RuleType;
  severity: Severity;
  enabled: boolean;
  tenant: string;
  channels: string;
  /** Null: not known yet. */
  evaluation: Evaluation | null;
  /** Percentage of one core; null: not known yet. */
  cpu: number | null;
  /** Why it pauses; empty: it does not. */
  throttled: string;
  /** Coverage holes that go on; null: not known. */
  holes: OpenHoles | null;
}

/** Most rules whose alerts are counted. */
const RULES_MAX = 20_000;

/** Most rules whose alerts are counted by day, those with the most alerts. */
const RULES_BY_DAY_MAX = 2000;
export const DAYS = 7;

/** Search that counts the alerts of all rules. Days are those of the zone. */
export const ruleAlertsBody = (zone: string) => ({
  size: 0,
  track_total_hits: false,
  aggs: {
    rules: {
      terms: { field: 'rule.id', size: RULES_MAX },
      aggs: { week: { filter: { range: { '@timestamp': { gte: 'now-7d' } } } }, last: { max: { field: '@timestamp' } } },
    },
    recent: {
      filter: { range: { '@timestamp': { gte: `now-${DAYS - 1}d/d`, time_zone: zone } } },
      aggs: {
        rules: {
          terms: { field: 'rule.id', size: RULES_BY_DAY_MAX },
          aggs: { days: { date_histogram: { field: '@timestamp', calendar_interval: 'day', time_zone: zone, extended_bounds: { min: `now-${DAYS - 1}d/d`, max: 'now' } } } },
        },
      },
    },
  },
});

/** Converts the response to counts by the id of the rule. */
export function readRuleAlerts(response: SearchResponse<unknown>): Map<string, RuleAlerts> {
  const buckets: Bucket[] = response.aggregations?.['rules']?.buckets ?? [];
  const recent = response.aggregations?.['recent'] as { rules?: Aggregation } | undefined;
  const days = new Map((recent?.rules?.buckets ?? []).map((bucket) => [bucket.key, ((bucket['days'] as Aggregation | undefined)?.buckets ?? []).map((day) => day.doc_count)]));
  return new Map(
    buckets.map((bucket) => {
      const [week, last] = [bucket['week'], bucket['last']] as (Aggregation | undefined)[];
      return [String(bucket.key), { count: week?.doc_count ?? 0, lastMs: last?.value ?? null, days: (days.get(bucket.key) ?? []).slice(-DAYS) }];
    }),
  );
}

/** Tells in words where a rule is evaluated. */
export function evaluationOf({ enabled, evaluated_by: by, unmapped_in: unmapped, error }: RuleEvaluation): Evaluation {
  if (error !== null) return { text: error, isProblem: true };
  if (!enabled) return { text: 'disabled', isProblem: false };
  if (by.length > 0) return { text: by.join(', '), isProblem: false };
  if (unmapped.length > 0) return { text: `no log source in ${unmapped.join(', ')}`, isProblem: true };
  return { text: 'no pipeline', isProblem: true };
}

const NO_ALERTS: RuleAlerts = { count: 0, lastMs: null, days: [] };

/** Returns what the list shows of a definition, as the server does. */
export function ruleSummary(id: string, definition: RuleDefinition): RuleSummary {
  const { type, tags = [], enabled = true, tenant, channels } = definition;
  return { type, name: ruleName(id, definition), severity: ruleSeverity(definition), enabled, tags, ...(tenant && { tenant }), ...(channels && { channels }) };
}

/** Joins rules, counts and costs to the rows of the list. */
export function ruleRows(rules: Record<string, RuleSummary>, alerts: ReadonlyMap<string, RuleAlerts>, stats: Record<string, RuleStats>): RuleRow[] {
  return Object.entries(rules).map(([id, { name, type, severity, enabled, tenant = '', channels = [] }]) => ({
    id,
    name,
    type,
    severity,
    enabled,
    tenant,
    channels: channels.join(', '),
    evaluation: stats[id] ? evaluationOf(stats[id]) : null,
    cpu: stats[id]?.cpu.core_percent ?? null,
    throttled: stats[id]?.throttled?.reason ?? '',
    holes: stats[id]?.open_holes ?? null,
    ...(alerts.get(id) ?? NO_ALERTS),
  }));
}

/** Title of the column of tenants and channels: what some rule has of them; null: none has any. */
export function scopeTitle(rows: readonly RuleRow[]): string | null {
  const parts = [rows.some(({ tenant }) => tenant !== '') && 'Tenant', rows.some(({ channels }) => channels !== '') && 'Channels'].filter((part) => part !== false);
  return parts.length === 0 ? null : parts.join(', ');
}

/** Tenant and channels of a rule; empty: it has none. */
export const scopeOf = ({ tenant, channels }: RuleRow): string => [tenant, channels].filter((part) => part !== '').join(' · ');

/** Tells in words where the events of a rule are not evaluated now. */
export function holesText({ count, since, pipelines = [] }: OpenHoles, time: (ms: number) => string): string {
  if (count === 0 || since === undefined) return 'Evaluated on each event';
  const places = `${pipelines.length === 1 ? 'pipeline' : 'pipelines'} ${pipelines.join(', ')}`;
  return `Not evaluated on events of the ${places} since ${time(Date.parse(since))}`;
}

/** Path of the alerts of a rule. */
export const alertsPath = (id: string): string => `/alerts?${new URLSearchParams({ status: 'all', q: kqlIs('rule.id', id) }).toString()}`;
