import { request } from './request';

/** Item of `GET /{index}/_ilm/explain`. */
export interface LifecycleState {
  index: string;
  managed: boolean;
  policy?: string;
  age?: string;
  phase?: string;
  action?: string;
  step?: string;
  step_time_millis?: number;
  /** Failed step, if `step` is `ERROR`. */
  failed_step?: string;
  failed_step_retry_count?: number;
  /** Info of the previous step or attempt. */
  previous_step_info?: { type?: string; reason?: string } & Record<string, unknown>;
  /** Reason why the step waits or failed. */
  step_info?: { type?: string; reason?: string; message?: string } & Record<string, unknown>;
  repository_name?: string;
  snapshot_name?: string;
  phase_execution?: { policy: string; phase_definition?: unknown; version?: number };
}

/** Item of `GET /_ilm/policy`. */
export interface LifecyclePolicy {
  version: number;
  policy: { phases: Record<string, { min_age?: string; actions: Record<string, unknown> }> };
  in_use_by: { indices: string[]; data_streams: string[]; composable_templates: string[] };
}

export interface StepKey {
  phase: string;
  action: string;
  name: string;
}

export const explainLifecycle = async (index: string, signal?: AbortSignal): Promise<LifecycleState | null> => {
  const answer = await request<{ indices: Record<string, LifecycleState> }>(`/${encodeURIComponent(index)}/_ilm/explain`, { ...(signal && { signal }) });
  return Object.values(answer.indices)[0] ?? null;
};

/** Explains all managed indices, by name. */
export const explainAll = async (signal?: AbortSignal): Promise<Record<string, LifecycleState>> =>
  (
    await request<{ indices: Record<string, LifecycleState> }>('/*/_ilm/explain', {
      query: {
        only_managed: true,
        expand_wildcards: 'all',
        // Only the columns of the table, which may have thousands of rows. The index page requests the rest.
        filter_path: 'indices.*.index,indices.*.managed,indices.*.policy,indices.*.phase,indices.*.action,indices.*.step,indices.*.failed_step',
      },
      ...(signal && { signal }),
    })
  ).indices ?? {};

export const listPolicies = (signal?: AbortSignal) => request<Record<string, LifecyclePolicy>>('/_ilm/policy', { ...(signal && { signal }) });

export const moveToStep = (index: string, current: StepKey, next: { phase: string; action?: string; name?: string }) =>
  request<{ acknowledged: boolean }>(`/_ilm/move/${encodeURIComponent(index)}`, { method: 'POST', body: { current_step: current, next_step: next } });

export const retryStep = (index: string) => request<{ acknowledged: boolean }>(`/${encodeURIComponent(index)}/_ilm/retry`, { method: 'POST' });

export const lifecycleMode = async (signal?: AbortSignal): Promise<string> =>
  (await request<{ operation_mode: string }>('/_ilm/status', { ...(signal && { signal }) })).operation_mode;
