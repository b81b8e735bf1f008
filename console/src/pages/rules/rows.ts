import type { Severity } from '../../api/alerts';
import type { RuleDefinition, RuleStats, RuleSummary, RuleType } from '../../api/detection-rules';
import type { Aggregation, Bucket, SearchResponse } from '../../api/search';
import { kqlIs } from '../../lib/query-dsl';
import { ruleName, ruleSeverity } from './sigma';

/** Alerts of one rule. */
export interface RuleAlerts {
  /** In the last seven days. */
  count: number;
  /** Time of the newest alert in ms. */
  lastMs: number | null;
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
  /** Percentage of one core; null: not known yet. */
  cpu: number | null;
  /** Why it pauses; empty: it does not. */
  throttled: string;
}

/** Most rules whose alerts are counted. */
const RULES_MAX = 20_000;

/** Search that counts the alerts of all rules. */
export const ruleAlertsBody = {
  size: 0,
  track_total_hits: false,
  aggs: {
    rules: {
      terms: { field: 'rule.id', size: RULES_MAX },
      aggs: { week: { filter: { range: { '@timestamp': { gte: 'now-7d' } } } }, last: { max: { field: '@timestamp' } } },
    },
  },
};

/** Converts the response to counts by the id of the rule. */
export function readRuleAlerts(response: SearchResponse<unknown>): Map<string, RuleAlerts> {
  const buckets: Bucket[] = response.aggregations?.['rules']?.buckets ?? [];
  return new Map(
    buckets.map((bucket) => {
      const [week, last] = [bucket['week'], bucket['last']] as (Aggregation | undefined)[];
      return [String(bucket.key), { count: week?.doc_count ?? 0, lastMs: last?.value ?? null }];
    }),
  );
}

const NO_ALERTS: RuleAlerts = { count: 0, lastMs: null };

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
    cpu: stats[id]?.cpu.core_percent ?? null,
    throttled: stats[id]?.throttled?.reason ?? '',
    ...(alerts.get(id) ?? NO_ALERTS),
  }));
}

/** Path of the alerts of a rule. */
export const alertsPath = (id: string): string => `/alerts?${new URLSearchParams({ status: 'all', q: kqlIs('rule.id', id) }).toString()}`;
