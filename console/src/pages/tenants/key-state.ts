import type { ApiKey } from '../../api/api-keys';

/** Whether a key lets anybody in. One that was invalidated stays so after its time. */
export function keyState(key: Pick<ApiKey, 'invalidated' | 'expiration'>, nowMs: number): 'active' | 'expired' | 'invalidated' {
  if (key.invalidated) return 'invalidated';
  return key.expiration !== undefined && key.expiration <= nowMs ? 'expired' : 'active';
}

/** What a new key may do: nothing by default that its use does not need. */
export const KEY_USES = {
  write: { label: 'Send events', help: 'writes events, reads nothing: for shippers', roles: { writer: { indices: [{ names: ['*'], privileges: ['write', 'create_index', 'auto_configure'] }] } } },
  read: { label: 'Search', help: 'reads events: for dashboards and programs', roles: { reader: { indices: [{ names: ['*'], privileges: ['read', 'view_index_metadata'] }] } } },
  all: { label: 'All that the tenant’s admin may', help: 'reads, writes, manages users and keys', roles: undefined },
} as const;

export type KeyUse = keyof typeof KEY_USES;
