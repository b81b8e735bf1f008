// @vitest-environment jsdom
import { MantineProvider } from '@mantine/core';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, render, screen } from '@testing-library/react';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { TenantDeletion } from '../../api/tenants';
import { Deletion } from './Deletion';

beforeEach(() => {
  vi.stubGlobal('matchMedia', () => ({ matches: false, addEventListener: () => undefined, removeEventListener: () => undefined }));
});

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

const DONE: TenantDeletion = { tenant: 'acme', status: 'done', documents_removed: 7, indices_done: 1, indices: [], snapshots: [] };

function open(deletion: TenantDeletion) {
  vi.stubGlobal('fetch', () => Promise.resolve(Response.json(deletion)));
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { retry: false } } })}>
        <Deletion id="acme" />
      </QueryClientProvider>
    </MantineProvider>,
  );
}

it('names what the engine could not tell', async () => {
  open({ ...DONE, unknown: ['the engine lacks the capability [snapshot_erasure]'] });
  expect(await screen.findByText('Not known: the engine lacks the capability [snapshot_erasure]')).toBeTruthy();
});

it('shows the error of the last attempt', async () => {
  open({ ...DONE, status: 'running', error: 'the disk is full' });
  expect(await screen.findByText(/repeated: the disk is full/)).toBeTruthy();
});

it('mentions neither where there is none', async () => {
  open(DONE);
  expect(await screen.findByText(/7 events removed/)).toBeTruthy();
  expect(screen.queryByText(/Not known|last attempt/)).toBeNull();
});
