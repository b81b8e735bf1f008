import { kqlIs } from '../../../lib/query-dsl';

/** Two parts: `/rules/NAME` is a rule. */
export const WINDOWS_PATH = '/rules/maintenance/windows';
export const NEW_WINDOW_PATH = '/rules/maintenance/new';

export const windowPath = (id: string): string => `/rules/maintenance/window/${encodeURIComponent(id)}`;

/** Path of the alerts that a window has suppressed. */
export const suppressedPath = (id: string): string => `/alerts?${new URLSearchParams({ status: 'all', q: kqlIs('firn.alert.maintenance_windows', id) }).toString()}`;

/** Key of the query that lists the windows. */
export const WINDOWS_QUERY = ['maintenance-windows'];
