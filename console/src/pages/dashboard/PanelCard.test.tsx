// @vitest-environment jsdom
import { MantineProvider } from '@mantine/core';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, render, screen } from '@testing-library/react';
import { MemoryRouter } from 'react-router';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Question } from '../../api/discover';
import type { Source } from '../../api/sources';
import { PanelCard } from './PanelCard';
import type { PanelContext, PanelSearch } from './search';
import type { PanelRun } from './use-panel';

/** Request of the last estimate; null if the panel searched without one. */
let estimateOf: Question | null;
let search: PanelSearch | null;
/** Results so far; null if none. */
let found: PanelRun['found'] = null;
vi.mock('../../components/TimeChart', () => ({ TimeChart: () => null }));
vi.mock('./use-panel', () => ({
  usePanel: (options: { search: PanelSearch | null; estimateOf: Question | null }): PanelRun => {
    search = options.search;
    estimateOf = options.estimateOf;
    const estimate = estimateOf && { event: 'estimate', ms: 60_000, requests: 10, bytes: 1 };
    return { status: estimate ? 'estimate' : 'running', found, kind: 'top', stale: false, error: null, estimate: estimate as PanelRun['estimate'] };
  },
}));

type Shared = Omit<PanelContext, 'timeField'>;
const CONTEXT: Shared = { source: 'web', range: { from: 'now-1d', to: 'now' }, text: '', zone: 'UTC', nowMs: Date.UTC(2026, 10, 22, 12) };
const nothing = () => undefined;

const source = (name: string, time_field: string, tier: string): Source => ({ name, kind: 'index', indices: 1, time_field, tier: [tier], hidden: false });
const SOURCES = [source('web', '@timestamp', 'hot'), source('old', 'at', 'frozen')];

const card = (shared: Shared, search = 'i=old') => (
  <MantineProvider>
    <QueryClientProvider client={new QueryClient()}>
      <MemoryRouter>
        <PanelCard panel={{ title: 'a', kind: 'top', field: 'url', search }} shared={shared} sources={SOURCES} round={0} onEdit={nothing} onRemove={nothing} onRetry={nothing} onBusy={nothing} onValue={nothing} />
      </MemoryRouter>
    </QueryClientProvider>
  </MantineProvider>
);

beforeEach(() => {
  vi.stubGlobal('matchMedia', () => ({ matches: false, addEventListener: nothing, removeEventListener: nothing }));
});

afterEach(() => {
  found = null;
  cleanup();
  vi.unstubAllGlobals();
});

test('accepting the cost of a day does not accept the cost of a year', async () => {
  const { rerender } = render(card(CONTEXT));
  (await screen.findByText('Run anyway')).click();
  await vi.waitFor(() => expect(estimateOf).toBeNull());
  // A minute later it is still the same request.
  rerender(card({ ...CONTEXT, nowMs: CONTEXT.nowMs + 60_000 }));
  expect(estimateOf).toBeNull();
  rerender(card({ ...CONTEXT, range: { from: 'now-1y', to: 'now' } }));
  expect(estimateOf).toMatchObject({ time: { from: 'now-1y' } });
});

test('a panel with another source uses its time field, and asks before reading frozen data', () => {
  const { rerender } = render(card(CONTEXT));
  expect(estimateOf).toMatchObject({ index: 'old', time: { field: 'at' } });
  expect(search?.body).toMatchObject({ query: { bool: { filter: [{ range: { at: { gte: 'now-1d' } } }] } } });
  rerender(card({ ...CONTEXT, source: 'old' }, 'i=web'));
  expect(estimateOf).toBeNull();
  expect(search?.body).toMatchObject({ query: { bool: { filter: [{ range: { '@timestamp': { gte: 'now-1d' } } }] } } });
});

test('the link to Discover is disabled until the saved search has loaded', async () => {
  let answer: (response: Response) => void = nothing;
  vi.stubGlobal('fetch', () => new Promise<Response>((done) => (answer = done)));
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient()}>
        <MemoryRouter>
          <PanelCard panel={{ title: 'a', kind: 'top', field: 'url', saved: 'kept' }} shared={CONTEXT} sources={SOURCES} round={0} onEdit={nothing} onRemove={nothing} onRetry={nothing} onBusy={nothing} onValue={nothing} />
        </MemoryRouter>
      </QueryClientProvider>
    </MantineProvider>,
  );
  screen.getByRole('button', { name: 'Actions for panel a' }).click();
  const item = () => screen.findByRole('menuitem', { name: 'Open in Discover' });
  expect([(await item()).hasAttribute('disabled'), (await item()).getAttribute('href')]).toEqual([true, null]);
  answer(Response.json({ id: 'kept', title: 'kept', state: { search: 'i=old&q=secret' } }));
  await vi.waitFor(async () => expect((await item()).getAttribute('href')).toMatch(/^\/discover\?i=old.*q=secret/));
});

test('the empty state waits until all shards have answered', () => {
  const shards = { total: 2, successful: 1, skipped: 0, failed: 0 };
  const response = { took: 1, timed_out: false, _shards: shards, hits: { total: { value: 0, relation: 'gte' as const }, hits: [] }, aggregations: { values: { buckets: [] } } };
  found = { is_partial: true, is_running: true, response };
  render(card(CONTEXT, 'i=web'));
  expect(screen.queryByText('No events found')).toBeNull();
});
