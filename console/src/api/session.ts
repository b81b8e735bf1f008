import { request } from './request';

export interface User {
  username: string;
  full_name?: string | null;
  roles: string[];
}

/** `GET /_firn/session`: who is signed in, and what they may see. */
export interface Session {
  /** False when the server asks nobody to sign in. */
  security: boolean;
  user: User | null;
  /** The tenant whose view every request of this session has; null for operators. */
  tenant: string | null;
  operator: boolean;
  /** The tenant whose view an operator has taken, for a stated reason and with a line in the audit log. */
  view_as: string | null;
  /** Of this user with this view. */
  csrf: string | null;
  expires_in_s?: number;
  name?: string;
  version?: string;
}

export const fetchSession = (signal?: AbortSignal) =>
  request<Session>('/_firn/session', { on401: 'fail', onOtherSession: 'fail', withoutToken: true, ...(signal ? { signal } : {}) });

export const signIn = (username: string, password: string) =>
  request<Session>('/_firn/session', { method: 'POST', body: { username, password }, on401: 'fail' });

export const signOut = () => request<void>('/_firn/session', { method: 'DELETE', on401: 'fail' });

/** Takes the view of a tenant, or with null gives it back. Operators only; the audit log keeps the reason. */
export const viewAs = (tenant: string | null, reason: string) =>
  request<Session>('/_firn/session/view', { method: 'POST', body: { tenant, reason }, onOtherSession: 'fail' });
