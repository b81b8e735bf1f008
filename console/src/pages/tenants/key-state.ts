import type { ApiKey } from '../../api/api-keys';

/** Returns the state of a key. An invalidated key stays `invalidated` after its expiration. */
export function keyState(key: Pick<ApiKey, 'invalidated' | 'expiration'>, nowMs: number): 'active' | 'expired' | 'invalidated' {
  if (key.invalidated) return 'invalidated';
  return key.expiration !== undefined && key.expiration <= nowMs ? 'expired' : 'active';
}

/** Role descriptors of a new key by use: only the privileges that the use needs. */
export const KEY_USES = {
  write: { label: 'Send events', help: 'Write-only, for shippers', roles: { writer: { indices: [{ names: ['*'], privileges: ['write', 'create_index', 'auto_configure'] }] } } },
  read: { label: 'Search', help: 'Read-only, for dashboards and programs', roles: { reader: { indices: [{ names: ['*'], privileges: ['read', 'view_index_metadata'] }] } } },
  all: { label: 'All permissions of a tenant admin', help: 'Reads, writes, manages users and keys', roles: undefined },
} as const;

export type KeyUse = keyof typeof KEY_USES;
