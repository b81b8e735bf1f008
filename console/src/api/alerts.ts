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
  window?: { start?: string; end?: string; events?: number; value?: number };
  /** `by` is null if authentication is off. */
  changed?: { at?: string; by?: string | null; reason?: string | null };
  /** Ids of channels. */
  pending?: string[];
  failed?: string[];
  deliveries?: Delivery[];
  escalate_at?: string;
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

/** Delivers alerts again on the channels on which their delivery failed. Operators only. */
export const resendAlerts = (alerts: AlertName[]) => request<ChangeResult>('/_firn/alerts/_resend', { method: 'POST', body: { alerts } });
