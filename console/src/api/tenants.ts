import { request } from './request';

/** Quotas of a tenant. An absent quota is inherited from `_default`, or unlimited. */
export interface Quotas {
  ingest_events_per_second?: number;
  ingest_bytes_per_second?: number;
  stored_bytes?: number;
  concurrent_searches?: number;
  search_cpu_share?: number;
  search_repository_bytes?: number;
  shared_cache_bytes?: number;
}

/** Settings of a tenant. */
export interface TenantSettings {
  display_name?: string;
  /** Duration such as `90d`. */
  retention?: string;
  quotas: Quotas;
}

/** `GET /_firn/tenants/{id}/usage`. */
export interface TenantUsage {
  tenant: string;
  events: number;
  /** By tier, and `total`. */
  stored_bytes: Record<string, number>;
  ingest: { events_per_second: number; bytes_per_second: number; events_total: number; bytes_total: number };
  search_cpu_ms: number;
  write_cpu_ms: number;
  cache_bytes: number;
  requests_refused_by_quota: number;
}

/** `GET /_firn/tenants/{id}`. */
export interface Tenant extends TenantSettings {
  id: string;
  /** Milliseconds since the epoch. */
  created?: number;
  deleting_since?: number;
  /** Settings including inherited ones. */
  effective: TenantSettings;
  /** Only with `?usage=true`. */
  usage?: TenantUsage;
}

/** `GET /_firn/tenants/{id}/deletion`. */
export interface TenantDeletion {
  tenant: string;
  status: 'running' | 'done';
  documents_removed: number;
  indices_done: number;
  indices: { index: string; documents: number; segments: number; state: string }[];
  snapshots: { repository: string; snapshot: string; indices: string[]; documents: number; state: string }[];
  snapshots_not_read?: { snapshots_of: string; error: string }[];
  /** Sentences about what the engine could not tell or remove. */
  unknown?: string[];
  /** Error of the last attempt. */
  error?: string;
}

/** Pseudo tenant whose settings all tenants inherit. */
export const DEFAULTS_ID = '_default';

const path = (id: string) => `/_firn/tenants/${encodeURIComponent(id)}`;

export const listTenants = async (signal?: AbortSignal): Promise<Tenant[]> =>
  (await request<{ tenants: Tenant[] }>('/_firn/tenants', { query: { usage: true }, ...(signal && { signal }) })).tenants;

export const fetchTenant = (id: string, signal?: AbortSignal) => request<Tenant>(path(id), { ...(signal && { signal }) });

export const fetchUsage = (id: string, signal?: AbortSignal) => request<TenantUsage>(`${path(id)}/usage`, { ...(signal && { signal }) });

/** Creates a tenant or replaces its settings. Quotas may be sizes with units. */
export const putTenant = (id: string, settings: Record<string, unknown>) =>
  request<{ acknowledged: boolean; created?: boolean }>(path(id), { method: 'PUT', body: settings });

/** Deletes a tenant: its keys and users stop working at once, its events are removed in the background. */
export const deleteTenant = (id: string) => request<{ acknowledged: boolean }>(path(id), { method: 'DELETE' });

export const fetchDeletion = (id: string, signal?: AbortSignal) =>
  request<TenantDeletion>(`${path(id)}/deletion`, { ...(signal && { signal }) });
