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
const button = { name: 'Create write-only API key' };

it('offers a key to users who may create one', async () => {
  open(told(true));
  expect(await screen.findByRole('button', button)).toBeTruthy();
});

it('explains to other users whom to ask', async () => {
  open(told(false));
  expect(await screen.findByText(/You lack permission to create API keys/)).toBeTruthy();
  expect(screen.queryByRole('button', button)).toBeNull();
});

it('offers a key if the privilege check fails', async () => {
  open(() => new Response('', { status: 500 }));
  expect(await screen.findByRole('button', button)).toBeTruthy();
});
