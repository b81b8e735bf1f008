// @vitest-environment jsdom
import { MantineProvider } from '@mantine/core';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, render, screen } from '@testing-library/react';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Session } from '../api/session';

const OPERATOR: Session = { security: true, user: { username: 'ada', roles: [] }, tenant: null, operator: true, view_as: null, csrf: 'old' };

/** Session that the mocked sign-in page returns. */
let next: Session;
vi.mock('../pages/sign-in', () => ({ default: ({ onSignedIn }: { onSignedIn: (session: Session) => void }) => <button onClick={() => onSignedIn(next)}>sign in</button> }));

let sent: { method: string; csrf: string | undefined }[];
let expired: boolean;

beforeEach(() => {
  vi.resetModules();
  sent = [];
  expired = true;
  // jsdom does not implement reload and logs an error. As in a browser, the code after it continues.
  vi.spyOn(console, 'error').mockImplementation(() => undefined);
  vi.stubGlobal('matchMedia', () => ({ matches: false, addEventListener: () => undefined, removeEventListener: () => undefined }));
  vi.stubGlobal('ResizeObserver', class {
    observe() {}
    unobserve() {}
    disconnect() {}
  });
});

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

/** Sends a request in an expired session, then signs in. Returns the requests that were sent. */
async function signInOver(session: Session, by: Session) {
  next = by;
  vi.stubGlobal('fetch', (path: string, { method, headers }: { method: string; headers: Record<string, string> }) => {
    if (path === '/_firn/session') return Promise.resolve(Response.json(session));
    sent.push({ method, csrf: headers['x-firn-csrf'] });
    return Promise.resolve(expired ? Response.json({}, { status: 401 }) : Response.json({}));
  });
  const { SessionProvider } = await import('./SessionProvider');
  const { request } = await import('../api/request');
  render(
    <MantineProvider>
      <QueryClientProvider client={new QueryClient()}>
        <SessionProvider>
          <p>page</p>
        </SessionProvider>
      </QueryClientProvider>
    </MantineProvider>,
  );
  await screen.findByText('page');
  void request('/logs', { method: 'DELETE' });
  const button = await screen.findByText('sign in');
  expired = false;
  button.click();
  await new Promise((resolve) => setTimeout(resolve, 50));
  return sent;
}

/** Signs out while the server responds with `status`. Returns the navigation targets and the error text. */
async function signOutWith(status: number) {
  const led: string[] = [];
  vi.stubGlobal('location', { assign: (to: string) => led.push(to) });
  vi.stubGlobal('fetch', (_: string, { method }: { method: string }) =>
    Promise.resolve(method === 'DELETE' ? Response.json({ error: { reason: 'no' } }, { status }) : Response.json(OPERATOR)),
  );
  const { SessionProvider } = await import('./SessionProvider');
  const { useSession } = await import('./session-context');
  let said = '';
  const Page = () => {
    const { signOut } = useSession();
    return <button onClick={() => void signOut().catch((error: Error) => (said = error.message))}>sign out</button>;
  };
  render(
    <MantineProvider>
      <QueryClientProvider client={new QueryClient()}>
        <SessionProvider>
          <Page />
        </SessionProvider>
      </QueryClientProvider>
    </MantineProvider>,
  );
  (await screen.findByText('sign out')).click();
  await new Promise((resolve) => setTimeout(resolve, 50));
  return { led, said };
}

test('signing out of an expired session succeeds', async () => {
  expect(await signOutWith(200)).toEqual({ led: ['/app/'], said: '' });
  cleanup();
  expect(await signOutWith(401)).toEqual({ led: ['/app/'], said: '' });
});

test('a failed sign-out reports the error', async () => {
  expect(await signOutWith(503)).toEqual({ led: [], said: 'no' });
});

test('a request that waits for a sign-in continues for the same user', async () => {
  expect(await signInOver(OPERATOR, { ...OPERATOR, csrf: 'new' })).toEqual([
    { method: 'DELETE', csrf: 'old' },
    { method: 'DELETE', csrf: 'new' },
  ]);
});

test('a request that waits for a sign-in never continues as another user', async () => {
  expect(await signInOver(OPERATOR, { ...OPERATOR, user: { username: 'bob', roles: [] }, csrf: 'new' })).toHaveLength(1);
  // Also if the credentials are renewed before the page reloads.
  const { credentials } = await import('../api/credentials');
  credentials.renew('new');
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(sent).toHaveLength(1);
});

test('a request of a tenant view never continues without the view', async () => {
  expect(await signInOver({ ...OPERATOR, view_as: 'acme' }, { ...OPERATOR, csrf: 'new' })).toHaveLength(1);
});

/**
 * A page of session `before` sends a request, or gets a message from another tab, when the cookie already belongs to
 * session `now`. Returns the number of reloads and the tokens that were sent.
 */
async function findsChanged(before: Session, now: Session | null, by: 'request' | 'tab') {
  let there: Session | null = before;
  let loads = 0;
  vi.stubGlobal('location', { reload: () => (loads += 1) });
  vi.stubGlobal('fetch', (path: string, { method, headers }: { method: string; headers: Record<string, string> }) => {
    const csrf = headers['x-firn-csrf'];
    if (!there) return Promise.resolve(Response.json({}, { status: 401 }));
    if (path !== '/_firn/session') sent.push({ method, csrf });
    if (csrf !== undefined && csrf !== there.csrf) return Promise.resolve(Response.json({ error: { type: 'session_changed_exception' } }, { status: 403 }));
    return Promise.resolve(Response.json(there));
  });
  const { SessionProvider } = await import('./SessionProvider');
  const { request } = await import('../api/request');
  render(
    <MantineProvider>
      <QueryClientProvider client={new QueryClient()}>
        <SessionProvider>
          <p>page</p>
        </SessionProvider>
      </QueryClientProvider>
    </MantineProvider>,
  );
  await screen.findByText('page');
  there = now;
  if (by === 'request') void request('/logs/_count').catch(() => undefined);
  else {
    const other = new BroadcastChannel('firn-session');
    other.postMessage('changed');
    await new Promise((resolve) => setTimeout(resolve, 50));
    other.close();
  }
  await new Promise((resolve) => setTimeout(resolve, 50));
  return { loads, tokens: sent.map(({ csrf }) => csrf) };
}

const VIEWING: Session = { ...OPERATOR, view_as: 'acme', csrf: 'of acme' };
const BOB: Session = { ...OPERATOR, user: { username: 'bob', roles: [] }, csrf: 'of bob' };

test('a view that another tab started is noticed with the next request', async () => {
  expect(await findsChanged(OPERATOR, VIEWING, 'request')).toEqual({ loads: 1, tokens: ['old'] });
});

test('a page reloads when its tenant view has ended', async () => {
  expect(await findsChanged(VIEWING, OPERATOR, 'request')).toEqual({ loads: 1, tokens: ['of acme'] });
});

test('a page reloads when its user is no longer signed in', async () => {
  expect(await findsChanged(OPERATOR, BOB, 'request')).toEqual({ loads: 1, tokens: ['old'] });
});

test('requests continue in a new session of the same user', async () => {
  expect(await findsChanged(OPERATOR, { ...OPERATOR, csrf: 'new' }, 'request')).toEqual({ loads: 0, tokens: ['old', 'new'] });
});

test('a message from another tab takes effect at once', async () => {
  expect(await findsChanged(OPERATOR, VIEWING, 'tab')).toEqual({ loads: 1, tokens: [] });
});

test('a page reloads when the user signs out in another tab', async () => {
  expect(await findsChanged(OPERATOR, null, 'tab')).toEqual({ loads: 1, tokens: [] });
});
