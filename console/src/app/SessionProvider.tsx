import { Box, Center, Modal } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useEffect, useMemo, useSyncExternalStore } from 'react';
import { credentials } from '../api/credentials';
import { ApiError } from '../api/errors';
import { fetchSession, type Session, signOut, viewAs } from '../api/session';
import { Failed } from '../components/Failed';
import { Loading } from '../components/Loading';
import SignIn from '../pages/sign-in';
import { SessionContext, type SessionContextValue } from './session-context';

const SESSION_KEY = ['session'];

/**
 * Asks who is signed in and shows the console or the sign-in page. When a session ends in the middle of something,
 * sign-in lies over the page and whatever was asked goes on afterwards.
 */
export function SessionProvider({ children }: { children: ReactNode }) {
  const client = useQueryClient();
  const expired = useSyncExternalStore(credentials.subscribe, credentials.expired);
  const { data, error, isPending, refetch } = useQuery({
    queryKey: SESSION_KEY,
    queryFn: ({ signal }) => signedIn(signal),
    staleTime: Infinity,
    retry: false,
  });
  const session = data ?? null;
  // Before children ask anything: their first request must carry the token already.
  useMemo(() => credentials.renew(session?.csrf ?? null), [session]);

  useEffect(() => {
    document.title = session?.name ? `firn · ${session.name}` : 'firn';
  }, [session]);

  const value = useMemo<SessionContextValue | null>(() => {
    if (!session) return null;
    return {
      session,
      signOut: async () => {
        await signOut().catch((error: unknown) => {
          // Of a session that is over already there is nothing left to end.
          if (!(error instanceof ApiError && error.status === 401)) throw error;
        });
        window.location.assign('/app/');
      },
      viewAs: async (tenant, reason) => {
        client.setQueryData(SESSION_KEY, await viewAs(tenant, reason));
        // Nothing that was seen with other eyes may stay on the screen.
        client.removeQueries({ predicate: (query) => query.queryKey !== SESSION_KEY && query.queryKey[0] !== 'session' });
      },
    };
  }, [session, client]);

  const adopt = (next: Session) => {
    // A new session has no view: what was asked with a tenant's eyes must not go on with an operator's own.
    const sameEyes = session && next.user?.username === session.user?.username && next.tenant === session.tenant && next.view_as === session.view_as;
    if (session && !sameEyes) {
      credentials.end();
      window.location.reload();
      return;
    }
    client.setQueryData(SESSION_KEY, next);
    credentials.renew(next.csrf);
  };

  if (isPending) return <Loading label="Asking who is signed in" />;
  if (error) {
    return (
      <Center mih="60vh">
        <Failed error={error} retry={() => void refetch()} />
      </Center>
    );
  }
  if (!value) return <SignIn onSignedIn={adopt} />;
  return (
    <SessionContext value={value}>
      {/* Whose view it is belongs to everything below: another view starts anew. */}
      <Box key={value.session.view_as ?? ''} component="div" style={{ display: 'contents' }}>
        {children}
      </Box>
      <Modal.Root opened={expired} onClose={() => {}} closeOnEscape={false} centered size={352} zIndex={1000}>
        <Modal.Overlay />
        <Modal.Content aria-label="Sign in again">
          <Modal.Body pt="md">
            <SignIn expired onSignedIn={adopt} username={session?.user?.username} />
          </Modal.Body>
        </Modal.Content>
      </Modal.Root>
    </SessionContext>
  );
}

/** The session, or null when somebody has to sign in first. */
async function signedIn(signal: AbortSignal): Promise<Session | null> {
  try {
    return await fetchSession(signal);
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return null;
    throw error;
  }
}
