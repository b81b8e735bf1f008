import { type AlertName, type AlertStatus, SEVERITIES, type Severity, STATUSES } from '../../api/alerts';
import type { TimeRange } from '../../lib/time-range';

/** State of the page, stored in the URL. */
export interface AlertsState {
  range: TimeRange;
  /** `all`: alerts of every status. */
  status: AlertStatus | 'all';
  /** Empty: every severity. */
  severities: Severity[];
  /** KQL filter. */
  text: string;
  /** Auto-refresh interval in ms; 0 is off. */
  refreshMs: number;
  /** Alert that is open in the drawer. */
  open: AlertName | null;
}

export const EMPTY_STATE: AlertsState = { range: { from: 'now-7d', to: 'now' }, status: 'open', severities: [], text: '', refreshMs: 30_000, open: null };

/** Encodes the state as a query string; defaults are left out. */
export function encodeState({ range, status, severities, text, refreshMs, open }: AlertsState): string {
  const params = new URLSearchParams();
  if (range.from !== EMPTY_STATE.range.from || range.to !== EMPTY_STATE.range.to) {
    params.set('from', range.from);
    params.set('to', range.to);
  }
  if (status !== EMPTY_STATE.status) params.set('status', status);
  if (severities.length > 0) params.set('severity', severities.join(','));
  if (text) params.set('q', text);
  if (refreshMs !== EMPTY_STATE.refreshMs) params.set('auto', String(refreshMs));
  if (open) {
    params.set('index', open.index);
    params.set('id', open.id);
  }
  return params.toString();
}

/** Decodes a query string. Invalid parameters have their defaults. */
export function decodeState(search: string): AlertsState {
  const params = new URLSearchParams(search);
  const [from, to, index, id] = ['from', 'to', 'index', 'id'].map((name) => params.get(name));
  const status = params.get('status');
  const severities = (params.get('severity') ?? '').split(',');
  const auto = params.get('auto');
  const refreshMs = Number(auto);
  return {
    range: from && to ? { from, to } : EMPTY_STATE.range,
    status: status === 'all' ? status : (STATUSES.find((known) => known === status) ?? EMPTY_STATE.status),
    severities: SEVERITIES.filter((known) => severities.includes(known)),
    text: params.get('q') ?? '',
    refreshMs: auto !== null && (refreshMs === 0 || refreshMs >= 1000) ? refreshMs : EMPTY_STATE.refreshMs,
    open: index && id ? { index, id } : null,
  };
}
