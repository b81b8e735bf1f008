import { request } from './request';

/** Snapshot attempt of a policy. Times are milliseconds since the epoch. */
export interface SnapshotInvocation {
  snapshot_name: string;
  start_time?: number;
  time: number;
  /** Reason of the failure. */
  details?: string;
}

/** Body of `PUT /_slm/policy/{id}`. */
export interface SnapshotPolicyBody {
  /** Cron expression of six fields, or an interval such as `1h`. */
  schedule: string;
  /** Name with date math, such as `<nightly-{now/d}>`; the server appends a unique suffix. */
  name: string;
  repository: string;
  config?: { indices?: string | string[] } & Record<string, unknown>;
  retention?: { expire_after?: string; min_count?: number; max_count?: number };
}

/** Item of `GET /_slm/policy`. */
export interface SnapshotPolicy {
  version: number;
  policy: SnapshotPolicyBody;
  last_success?: SnapshotInvocation;
  last_failure?: SnapshotInvocation;
  /** Negative: never. */
  next_execution_millis: number;
  in_progress?: { name: string; state: string };
  stats: { snapshots_taken: number; snapshots_failed: number; snapshots_deleted: number; snapshot_deletion_failures: number };
}

const path = (id: string) => `/_slm/policy/${encodeURIComponent(id)}`;

export const listSnapshotPolicies = (signal?: AbortSignal) => request<Record<string, SnapshotPolicy>>('/_slm/policy', { ...(signal && { signal }) });

export const putSnapshotPolicy = (id: string, policy: SnapshotPolicyBody) => request<{ acknowledged: boolean }>(path(id), { method: 'PUT', body: policy });

/** Deletes the policy; its snapshots stay. */
export const deleteSnapshotPolicy = (id: string) => request<{ acknowledged: boolean }>(path(id), { method: 'DELETE' });

/** Starts a snapshot now. */
export const runSnapshotPolicy = (id: string) => request<{ snapshot_name: string }>(`${path(id)}/_execute`, { method: 'POST' });

/** Starts deleting the snapshots whose retention has ended. */
export const runRetention = () => request<{ acknowledged: boolean }>('/_slm/_execute_retention', { method: 'POST' });

export const fetchSnapshotPoliciesMode = async (signal?: AbortSignal): Promise<string> =>
  (await request<{ operation_mode: string }>('/_slm/status', { ...(signal && { signal }) })).operation_mode;

export const startSnapshotPolicies = () => request<{ acknowledged: boolean }>('/_slm/start', { method: 'POST' });

/** Stops all policies. A running snapshot completes; no new one starts. */
export const stopSnapshotPolicies = () => request<{ acknowledged: boolean }>('/_slm/stop', { method: 'POST' });
