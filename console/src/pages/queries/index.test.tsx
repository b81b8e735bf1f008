// @vitest-environment jsdom
import { MantineProvider } from '@mantine/core';
import { cleanup, render, screen } from '@testing-library/react';
import { MemoryRouter } from 'react-router';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { SessionContext } from '../../app/session-context';
import Queries from '.';

vi.mock('./Traffic', () => ({ Traffic: () => <p>the record</p> }));
vi.mock('./Audit', () => ({ Audit: () => <p>the log</p> }));

beforeEach(() => {
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
});

function open(who: { operator: boolean; tenant: string | null; view_as: string | null }) {
  const session = { security: true, user: { username: 'ann', roles: [] }, csrf: null, ...who };
  const none = () => Promise.resolve();
  render(
    <MantineProvider env="test">
      <SessionContext value={{ session, signOut: none, viewAs: none }}>
        <MemoryRouter>
          <Queries />
        </MemoryRouter>
      </SessionContext>
    </MantineProvider>,
  );
}

it('shows the traffic to operators', () => {
  open({ operator: true, tenant: null, view_as: null });
  expect(screen.getByText('the record')).toBeTruthy();
});

it.each([
  { operator: false, tenant: 'acme', view_as: null },
  { operator: true, tenant: null, view_as: 'acme' },
])('is refused in the scope of a tenant instead of looking empty', (who) => {
  open(who);
  expect(screen.getByText('This page is for operators')).toBeTruthy();
  expect(screen.queryByText('the record')).toBeNull();
});
