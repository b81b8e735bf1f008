import { createContext, useContext } from 'react';
import type { Session } from '../api/session';

export interface SessionContextValue {
  session: Session;
  signOut(): Promise<void>;
  /** Starts viewing as a tenant (operators only; the audit log records the reason), or ends it with null. */
  viewAs(tenant: string | null, reason: string): Promise<void>;
}

export const SessionContext = createContext<SessionContextValue | null>(null);

export function useSession(): SessionContextValue {
  const value = useContext(SessionContext);
  if (!value) throw new Error('useSession outside of SessionProvider');
  return value;
}
