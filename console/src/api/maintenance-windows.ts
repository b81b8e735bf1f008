import type { Severity } from './alerts';
import { request } from './request';

/** Weekdays, Monday first. */
export const WEEKDAYS = ['mo', 'tu', 'we', 'th', 'fr', 'sa', 'su'] as const;
export type Weekday = (typeof WEEKDAYS)[number];

export interface Repeat {
  every: 'day' | 'week' | 'month';
  weekdays?: Weekday[];
  /** Date of the last start. */
  until?: string | number;
  count?: number;
}

/** Definition of a maintenance window: a time in which alerts are stored and not delivered. */
export interface MaintenanceWindow {
  title: string;
  /** Date, or ms since the epoch. A date without an offset is in `timezone`. */
  start: string | number;
  end?: string | number;
  duration?: string;
  repeat?: Repeat;
  timezone?: string;
  tenant?: string;
  rules?: string[];
  min_severity?: Severity;
  query?: string | object;
  language?: 'kuery' | 'kql' | 'lucene';
}

/** When a window is. Times are RFC 3339 in its zone. */
export interface WindowStatus {
  active: boolean;
  active_until?: string | null;
  next_start?: string | null;
  /** Why the stored definition cannot be used. */
  error?: string;
}

export type StoredWindow = MaintenanceWindow & { status: WindowStatus };

const ALL = '/_firn/maintenance_windows';
const pathOf = (id: string) => `${ALL}/${encodeURIComponent(id)}`;

/** Lists all maintenance windows by id. */
export const listWindows = (signal?: AbortSignal) => request<Record<string, StoredWindow>>(ALL, signal ? { signal } : {});

/** Fetches one maintenance window; fails with 404 if it is missing. */
export const fetchWindow = async (id: string, signal?: AbortSignal): Promise<StoredWindow> => {
  const found = (await request<Record<string, StoredWindow>>(pathOf(id), signal ? { signal } : {}))[id];
  if (!found) throw new Error(`maintenance window [${id}] is missing in the response`);
  return found;
};

/** Creates or replaces a maintenance window. */
export const putWindow = (id: string, definition: MaintenanceWindow) => request<unknown>(pathOf(id), { method: 'PUT', body: definition });

export const deleteWindow = (id: string) => request<unknown>(pathOf(id), { method: 'DELETE' });
