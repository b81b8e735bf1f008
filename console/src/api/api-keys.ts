import { request } from './request';

/** One of `GET /_security/api_key`. Times are milliseconds since the epoch. */
export interface ApiKey {
  id: string;
  name: string;
  creation: number;
  expiration?: number;
  invalidated: boolean;
  invalidation?: number;
  last_used?: number;
  username: string;
  metadata: { tenant?: string } & Record<string, unknown>;
  role_descriptors: Record<string, unknown>;
}

/** Response of the create request: the only one that contains the secret. */
export interface CreatedApiKey {
  id: string;
  name: string;
  expiration?: number;
  api_key: string;
  /** What clients send after `Authorization: ApiKey`. */
  encoded: string;
}

export interface NewApiKey {
  name: string;
  /** Duration such as `365d`; without it the key does not expire. */
  expiration?: string;
  /** Owner of the key; an operator key without it. */
  tenant?: string;
  /** Restricts the key to part of its creator's privileges; all of them without it. */
  role_descriptors?: Record<string, unknown>;
}

export const listApiKeys = async (signal?: AbortSignal): Promise<ApiKey[]> =>
  (await request<{ api_keys: ApiKey[] }>('/_security/api_key', { ...(signal && { signal }) })).api_keys;

/** Returns whether the caller may create API keys. A user who may only read events may not. */
export const mayCreateApiKey = async (signal?: AbortSignal): Promise<boolean> =>
  (await request<{ cluster: Record<string, boolean> }>('/_security/user/_has_privileges', { body: { cluster: ['manage_own_api_key'] }, ...(signal && { signal }) })).cluster['manage_own_api_key'] === true;

export const createApiKey = ({ name, expiration, tenant, role_descriptors }: NewApiKey) =>
  request<CreatedApiKey>('/_security/api_key', {
    method: 'POST',
    body: { name, ...(expiration && { expiration }), ...(tenant && { metadata: { tenant } }), ...(role_descriptors && { role_descriptors }) },
  });

export const invalidateApiKey = (id: string) =>
  request<{ invalidated_api_keys: string[] }>('/_security/api_key', { method: 'DELETE', body: { ids: [id] } });
