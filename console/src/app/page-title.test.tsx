// @vitest-environment jsdom
import { MantineProvider } from '@mantine/core';
import { cleanup, render } from '@testing-library/react';
import { MemoryRouter } from 'react-router';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { PageFrame } from '../components/PageFrame';
import { SessionContext } from './session-context';

beforeEach(() => vi.stubGlobal('matchMedia', () => ({ matches: false, addEventListener: () => undefined, removeEventListener: () => undefined })));

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

const none = () => Promise.resolve();
const frame = (title: string, name?: string) => (
  <MantineProvider env="test">
    <SessionContext value={{ session: { security: false, user: null, csrf: null, operator: true, tenant: null, view_as: null, ...(name && { name }) }, signOut: none, viewAs: none }}>
      <MemoryRouter>
        <PageFrame title={title}>content</PageFrame>
      </MemoryRouter>
    </SessionContext>
  </MantineProvider>
);

it('tells pages and servers apart in the tabs of the browser', () => {
  const { rerender } = render(frame('Rules'));
  expect(document.title).toBe('Rules · firn');
  rerender(frame('Logon as root', 'staging'));
  expect(document.title).toBe('Logon as root · firn · staging');
});
