// @vitest-environment jsdom
import { MantineProvider } from '@mantine/core';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, render, screen } from '@testing-library/react';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { SessionContext } from '../../app/session-context';
import { SenderKey } from './SenderKey';

beforeEach(() => {
  vi.stubGlobal('matchMedia', () => ({ matches: false, addEventListener: () => undefined, removeEventListener: () => undefined }));
});

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

function open(privileges: () => Response) {
  vi.stubGlobal('fetch', () => Promise.resolve(privileges()));
  const session = { security: true, user: { username: 'ann', roles: [] }, tenant: 'acme', operator: false, view_as: null, csrf: null };
  const none = () => Promise.resolve();
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { retry: false } } })}>
        <SessionContext value={{ session, signOut: none, viewAs: none }}>
          <SenderKey made={false} onMade={none} />
        </SessionContext>
      </QueryClientProvider>
    </MantineProvider>,
  );
}

const told = (may: boolean) => () => Response.json({ username: 'ann', has_all_requested: may, cluster: { manage_own_api_key: may } });
const button = { name: 'Make a key that may only send' };

it('offers a key to whoever may make one', async () => {
  open(told(true));
  expect(await screen.findByRole('button', button)).toBeTruthy();
});

it('tells a reader whom to ask, and offers nothing that is always refused', async () => {
  open(told(false));
  expect(await screen.findByText(/You may not make keys/)).toBeTruthy();
  expect(screen.queryByRole('button', button)).toBeNull();
});

it('offers it where nobody says whether it is allowed', async () => {
  open(() => new Response('', { status: 500 }));
  expect(await screen.findByRole('button', button)).toBeTruthy();
});
