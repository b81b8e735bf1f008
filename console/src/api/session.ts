import { request } from './request';

export interface User {
  username: string;
  full_name?: string | null;
  roles: string[];
}

/** `GET /_firn/session`: the signed-in user and their scope. */
export interface Session {
  /** False if authentication is off. */
  security: boolean;
  user: User | null;
  /** Tenant that limits every request of this session; null for operators. */
  tenant: string | null;
  operator: boolean;
  /** Tenant that an operator views as, with a reason in the audit log. */
  view_as: string | null;
  /** CSRF token of this user and this view. */
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

/** Starts viewing as a tenant, or ends it with null. Operators only; the audit log records the reason. */
export const viewAs = (tenant: string | null, reason: string) =>
  request<Session>('/_firn/session/view', { method: 'POST', body: { tenant, reason }, onOtherSession: 'fail' });
