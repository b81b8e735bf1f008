import { createContext, useContext } from 'react';
import type { Session } from '../api/session';

export interface SessionContextValue {
  session: Session;
  signOut(): Promise<void>;
  /** Takes a tenant's view (operators only; the audit log keeps the reason), or with null gives it back. */
  viewAs(tenant: string | null, reason: string): Promise<void>;
}

export const SessionContext = createContext<SessionContextValue | null>(null);

export function useSession(): SessionContextValue {
  const value = useContext(SessionContext);
  if (!value) throw new Error('useSession outside of SessionProvider');
  return value;
}
