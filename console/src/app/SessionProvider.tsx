import { Box, Center, Modal } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useCallback, useEffect, useMemo, useRef, useSyncExternalStore } from 'react';
import { credentials } from '../api/credentials';
import { ApiError } from '../api/errors';
import { SESSION_CHANGED } from '../api/request';
import { fetchSession, type Session, signOut, viewAs } from '../api/session';
import { Failed } from '../components/Failed';
import { Loading } from '../components/Loading';
import SignIn from '../pages/sign-in';
import { SessionContext, type SessionContextValue } from './session-context';

const SESSION_KEY = ['session'];
/** All tabs of a browser share the session: a tab that changes it notifies the others. */
const CHANNEL = 'firn-session';

/**
 * Fetches the session and shows the console or the sign-in page. When a session expires, a sign-in dialog covers the
 * page and pending requests continue afterwards. When another tab signs in another user, changes the tenant view or
 * signs out, the page reloads.
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
  // During render, before the children: their first request must already carry the token.
  useMemo(() => credentials.renew(session?.csrf ?? null), [session]);

  useEffect(() => {
    // With a session, each page sets it.
    if (!session) document.title = 'firn';
  }, [session]);

  const channel = useRef<BroadcastChannel | null>(null);
  const tellOthers = useCallback(() => channel.current?.postMessage('changed'), []);
  /** Pending view change of this tab. */
  const taking = useRef<Promise<unknown>>(Promise.resolve());

  const adopt = useCallback(
    (next: Session | null) => {
      const before = client.getQueryData<Session | null>(SESSION_KEY) ?? null;
      // Requests of one identity must not continue under another one, and their results must not stay on the screen.
      if (before && !(next && haveSameEyes(before, next))) {
        credentials.end();
        window.location.reload();
        return;
      }
      client.setQueryData(SESSION_KEY, next);
      credentials.renew(next?.csrf ?? null);
    },
    [client],
  );

  useEffect(() => {
    credentials.onDoubt(async () => {
      await taking.current;
      adopt(await signedIn());
    });
    const own = new BroadcastChannel(CHANNEL);
    own.onmessage = () => void credentials.lookAgain().catch(() => undefined);
    channel.current = own;
    return () => own.close();
  }, [adopt]);

  const value = useMemo<SessionContextValue | null>(() => {
    if (!session) return null;
    const take = async (tenant: string | null, reason: string) => {
      const next = await viewAs(tenant, reason);
      credentials.takeView(next.csrf);
      client.setQueryData(SESSION_KEY, next);
      // Results of the previous view must not stay on the screen.
      client.removeQueries({ predicate: (query) => query.queryKey !== SESSION_KEY && query.queryKey[0] !== 'session' });
    };
    return {
      session,
      signOut: async () => {
        await signOut().catch((error: unknown) => {
          // The session has already ended.
          if (!(error instanceof ApiError && error.status === 401)) throw error;
        });
        tellOthers();
        window.location.assign('/app/');
      },
      viewAs: async (tenant, reason) => {
        const taken = take(tenant, reason);
        taking.current = taken.catch(() => undefined);
        await taken.catch(async (error: unknown) => {
          if (error instanceof ApiError && error.type === SESSION_CHANGED) await credentials.lookAgain();
          throw error;
        });
        tellOthers();
      },
    };
  }, [session, client, tellOthers]);

  const signedInHere = (next: Session) => {
    adopt(next);
    tellOthers();
  };

  if (isPending) return <Loading label="Checking your session" />;
  if (error) {
    return (
      <Center mih="60vh">
        <Failed error={error} retry={() => void refetch()} />
      </Center>
    );
  }
  if (!value) return <SignIn onSignedIn={signedInHere} />;
  return (
    <SessionContext value={value}>
      {/* Another tenant view remounts everything below. */}
      <Box key={value.session.view_as ?? ''} component="div" style={{ display: 'contents' }}>
        {children}
      </Box>
      <Modal.Root opened={expired} onClose={() => {}} closeOnEscape={false} centered size={352} zIndex={1000}>
        <Modal.Overlay />
        <Modal.Content aria-label="Sign in again">
          <Modal.Body pt="md">
            <SignIn expired onSignedIn={signedInHere} username={session?.user?.username} />
          </Modal.Body>
        </Modal.Content>
      </Modal.Root>
    </SessionContext>
  );
}

const haveSameEyes = (one: Session, other: Session) =>
  one.user?.username === other.user?.username && one.tenant === other.tenant && one.view_as === other.view_as;

/** Fetches the session; null if the user has to sign in first. */
async function signedIn(signal?: AbortSignal): Promise<Session | null> {
  try {
    return await fetchSession(signal);
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return null;
    throw error;
  }
}
