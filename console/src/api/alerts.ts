import { request } from './request';
import type { SearchResponse } from './search';

export const STATUSES = ['open', 'acknowledged', 'closed'] as const;
export type AlertStatus = (typeof STATUSES)[number];

/** Severities of rules and alerts, lowest first. */
export const SEVERITIES = ['informational', 'low', 'medium', 'high', 'critical'] as const;
export type Severity = (typeof SEVERITIES)[number];

/** Attempt to deliver an alert on a channel. */
export interface Delivery {
  channel: string;
  at: string;
  outcome: 'delivered' | 'failed';
  attempts?: number;
  /** The message covered several alerts. */
  digest?: boolean;
  reason?: string;
}

/** What a rule over several events has found. */
export interface AlertWindow {
  start?: string;
  end?: string;
  events?: number;
  /** Measure of a threshold, or number of events of a rate. */
  value?: number;
  /** Mean of the windows before, of a rate. */
  baseline?: number;
  /** Of a sequence or a correlation, in the order of the rule. */
  steps?: AlertStep[];
}

export interface AlertStep {
  name: string;
  /** Of its event. */
  time: string;
}

/** Member `firn.alert` of an alert. */
export interface AlertState {
  status: AlertStatus;
  severity: Severity;
  risk_score?: number;
  rule_version?: string;
  group?: string;
  group_by?: Record<string, unknown[]>;
  /** Events that the alert stands for. */
  count?: number;
  last_event_time?: string;
  id?: string;
  event?: { index?: string; id?: string; time?: string | number | null; pipeline?: string; partition?: string; offset?: number };
  /** Window whose events the alert stands for; absent if it is of one event. */
  window?: AlertWindow;
  /** `by` is null if authentication is off. */
  changed?: { at?: string; by?: string | null; reason?: string | null };
  /** Ids of channels. */
  pending?: string[];
  failed?: string[];
  deliveries?: Delivery[];
  escalate_at?: string;
  /** Steps to come. */
  escalation?: { at: string; channels: string[] }[];
  /** Ids of the maintenance windows in which it was raised: it is not delivered. */
  maintenance_windows?: string[];
}

/** Alert as it is stored: a copy of the event with its rule. */
export interface AlertDocument {
  '@timestamp': string;
  rule?: { id?: string; name?: string; description?: string; author?: string; reference?: string };
  threat?: { framework?: string; technique?: { id?: string | string[] }; tactic?: { name?: string | string[] } };
  tenant?: string;
  firn?: { alert?: AlertState };
  [field: string]: unknown;
}

/** Identifier of one alert. */
export interface AlertName {
  index: string;
  id: string;
}

export interface AlertHit {
  _index: string;
  _id: string;
  _source: AlertDocument;
}

export type AlertsResponse = SearchResponse<AlertDocument>;

/** Alerts of all tenants that the user may see. */
const ALERTS = '.alerts-*';

/** Searches alerts. The result is empty if there are no alert indices yet. */
export const searchAlerts = (body: object, signal?: AbortSignal) =>
  request<AlertsResponse>(`/${ALERTS}/_search`, {
    body,
    query: { ignore_unavailable: true, allow_no_indices: true, expand_wildcards: 'open,hidden' },
    ...(signal && { signal }),
  });

/** Fetches one alert: also a change that no refresh has made searchable yet. */
export const fetchAlert = ({ index, id }: AlertName, signal?: AbortSignal) =>
  request<AlertHit>(`/${encodeURIComponent(index)}/_doc/${encodeURIComponent(id)}`, { values: true, ...(signal && { signal }) });

/** Alerts to change: by name, or all that match a query. */
export type AlertSelection = { alerts: AlertName[] } | { query: object };

export interface ChangeResult {
  updated: number;
  unchanged: number;
  failures: (AlertName & { reason: string })[];
}

/** Sets the status of alerts; of those that match a query, at most 10,000. */
export const setAlertStatus = (selection: AlertSelection, status: AlertStatus, reason: string) =>
  request<ChangeResult>('/_firn/alerts/_status', { method: 'POST', body: { ...selection, status, ...(reason && { reason }) } });

/** Delivers alerts again on the channels on which their delivery failed, or on these. Operators only. */
export const resendAlerts = (alerts: AlertName[], channels?: string[]) => request<ChangeResult>('/_firn/alerts/_resend', { method: 'POST', body: { alerts, ...(channels && { channels }) } });

/** Most alerts of its rules that a correlation lists. */
const PARTS_MAX = 20;

/**
 * Searches the alerts of the rules of a correlation, which have its id and a slash before theirs, for the events of a
 * tenant between two times.
 */
export const searchParts = (rule: string, tenant: string | undefined, { start, end }: AlertWindow, signal?: AbortSignal) => {
  const ofRules = [{ prefix: { 'rule.id': `${rule}/` } }, { range: { 'firn.alert.event.time': { gte: start, lte: end } } }];
  const ofTenant = tenant === undefined ? { must_not: [{ exists: { field: 'tenant' } }] } : { must: [{ term: { tenant } }] };
  const body = {
    size: PARTS_MAX,
    _source: ['@timestamp', 'rule.id', 'rule.name', 'firn.alert.event', 'firn.alert.status', 'firn.alert.severity'],
    track_total_hits: true,
    sort: [{ 'firn.alert.event.time': { order: 'asc', unmapped_type: 'date' } }],
    query: { bool: { filter: ofRules, ...ofTenant } },
  };
  return searchAlerts(body, signal);
};
