// @vitest-environment jsdom
import { MantineProvider } from '@mantine/core';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, render, screen } from '@testing-library/react';
import { MemoryRouter } from 'react-router';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Question } from '../../api/discover';
import { PanelCard } from './PanelCard';
import type { PanelContext } from './search';
import type { PanelRun } from './use-panel';

/** What the panel asked for an estimate with, the last time; null: it just searched. */
let estimateOf: Question | null;
vi.mock('../../components/TimeChart', () => ({ TimeChart: () => null }));
vi.mock('./use-panel', () => ({
  usePanel: (options: { estimateOf: Question | null }): PanelRun => {
    estimateOf = options.estimateOf;
    const estimate = estimateOf && { event: 'estimate', ms: 60_000, requests: 10, bytes: 1 };
    return { status: estimate ? 'estimate' : 'running', found: null, stale: false, error: null, estimate: estimate as PanelRun['estimate'] };
  },
}));

const CONTEXT: PanelContext = { source: 'web', timeField: '@timestamp', range: { from: 'now-1d', to: 'now' }, text: '', zone: 'UTC', nowMs: Date.UTC(2026, 10, 22, 12) };
const nothing = () => undefined;

const card = (context: PanelContext) => (
  <MantineProvider>
    <QueryClientProvider client={new QueryClient()}>
      <MemoryRouter>
        <PanelCard panel={{ title: 'a', kind: 'top', field: 'url' }} context={context} frozen round={0} onEdit={nothing} onRemove={nothing} onRetry={nothing} onBusy={nothing} onValue={nothing} />
      </MemoryRouter>
    </QueryClientProvider>
  </MantineProvider>
);

beforeEach(() => {
  vi.stubGlobal('matchMedia', () => ({ matches: false, addEventListener: nothing, removeEventListener: nothing }));
});

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

test('who agrees to what a day costs has not agreed to a year', async () => {
  const { rerender } = render(card(CONTEXT));
  (await screen.findByText('Read it')).click();
  await vi.waitFor(() => expect(estimateOf).toBeNull());
  // Later it is the same question still.
  rerender(card({ ...CONTEXT, nowMs: CONTEXT.nowMs + 60_000 }));
  expect(estimateOf).toBeNull();
  rerender(card({ ...CONTEXT, range: { from: 'now-1y', to: 'now' } }));
  expect(estimateOf).toMatchObject({ time: { from: 'now-1y' } });
});
