// @vitest-environment jsdom
import { MantineProvider } from '@mantine/core';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, render, screen } from '@testing-library/react';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Session } from '../api/session';

const OPERATOR: Session = { security: true, user: { username: 'ada', roles: [] }, tenant: null, operator: true, view_as: null, csrf: 'old' };

/** Who the sign-in page says has signed in. */
let next: Session;
vi.mock('../pages/sign-in', () => ({ default: ({ onSignedIn }: { onSignedIn: (session: Session) => void }) => <button onClick={() => onSignedIn(next)}>sign in</button> }));

let sent: { method: string; csrf: string | undefined }[];
let expired: boolean;

beforeEach(() => {
  vi.resetModules();
  sent = [];
  expired = true;
  // jsdom cannot load a page anew and says so: as in a browser, the code after it goes on.
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

/** A request that meets the end of its session, and then a sign-in. Says what was sent of it. */
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

/** Signs out where the server says `status` to it; where the page is then led, and what was said of a failure. */
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

test('who signs out of a session that is over is out', async () => {
  expect(await signOutWith(200)).toEqual({ led: ['/app/'], said: '' });
  cleanup();
  expect(await signOutWith(401)).toEqual({ led: ['/app/'], said: '' });
});

test('who cannot be signed out is told so', async () => {
  expect(await signOutWith(503)).toEqual({ led: [], said: 'no' });
});

test('what waits for a sign-in goes on as the one who asked for it', async () => {
  expect(await signInOver(OPERATOR, { ...OPERATOR, csrf: 'new' })).toEqual([
    { method: 'DELETE', csrf: 'old' },
    { method: 'DELETE', csrf: 'new' },
  ]);
});

test('what waits for a sign-in never goes on as somebody else', async () => {
  expect(await signInOver(OPERATOR, { ...OPERATOR, user: { username: 'bob', roles: [] }, csrf: 'new' })).toHaveLength(1);
  // Whatever else happens before the page is loaded anew.
  const { credentials } = await import('../api/credentials');
  credentials.renew('new');
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(sent).toHaveLength(1);
});

test('what was asked in the view of a tenant never goes on without it', async () => {
  expect(await signInOver({ ...OPERATOR, view_as: 'acme' }, { ...OPERATOR, csrf: 'new' })).toHaveLength(1);
});

/** A page of `before` sends a request when the cookie is one of `now` already, or is told by another tab. Says what it sent, whether it still shows what it did, and where it was loaded anew. */
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

test('a view that another tab took is seen with the next request', async () => {
  expect(await findsChanged(OPERATOR, VIEWING, 'request')).toEqual({ loads: 1, tokens: ['old'] });
});

test('a page in a view that was given back is loaded anew', async () => {
  expect(await findsChanged(VIEWING, OPERATOR, 'request')).toEqual({ loads: 1, tokens: ['of acme'] });
});

test('a page of somebody who is not signed in any more is loaded anew', async () => {
  expect(await findsChanged(OPERATOR, BOB, 'request')).toEqual({ loads: 1, tokens: ['old'] });
});

test('a new session of the same user goes on', async () => {
  expect(await findsChanged(OPERATOR, { ...OPERATOR, csrf: 'new' }, 'request')).toEqual({ loads: 0, tokens: ['old', 'new'] });
});

test('other tabs are heard at once', async () => {
  expect(await findsChanged(OPERATOR, VIEWING, 'tab')).toEqual({ loads: 1, tokens: [] });
});

test('who signs out in another tab leaves nothing on the screen', async () => {
  expect(await findsChanged(OPERATOR, null, 'tab')).toEqual({ loads: 1, tokens: [] });
});
