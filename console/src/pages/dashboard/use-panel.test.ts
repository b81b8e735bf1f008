// @vitest-environment jsdom
import { act, cleanup, renderHook } from '@testing-library/react';
import { afterEach, expect, test, vi } from 'vitest';
import type { AsyncSearch } from '../../api/async-search';
import type { Panel } from './state';
import { usePanel } from './use-panel';

/** Resolvers of the searches, in request order. */
const answers: ((found: AsyncSearch) => void)[] = [];
vi.mock('../../api/async-search', () => ({
  async *asyncSearch() {
    yield await new Promise<AsyncSearch>((resolve) => answers.push(resolve));
  },
}));

afterEach(() => {
  cleanup();
  answers.length = 0;
});

const TOP: Panel = { title: 'a', kind: 'top', field: 'url' };
const found = (took: number): AsyncSearch => ({
  is_partial: false,
  is_running: false,
  response: { took, timed_out: false, _shards: { total: 1, successful: 1, skipped: 0, failed: 0 }, hits: { total: { value: 1, relation: 'eq' }, hits: [] }, aggregations: { values: { buckets: [] } } },
});

const run = (panel: Panel) =>
  renderHook(({ panel, index, round }) => usePanel({ search: { index, body: {}, intervalMs: 1, filters: [] }, panel, estimateOf: null, round }), { initialProps: { panel, index: 'a', round: 0 } });
const answer = (at: number, took: number) => act(async () => answers[at]?.(found(took)));

test('a late response to the previous search is ignored', async () => {
  const { result, rerender } = run(TOP);
  rerender({ panel: TOP, index: 'b', round: 0 });
  await answer(0, 1);
  expect(result.current).toMatchObject({ status: 'running', found: null });
  await answer(1, 2);
  expect(result.current).toMatchObject({ status: 'done', stale: false, found: { response: { took: 2 } } });
});

test('previous results stay, unless the chart type changes', async () => {
  const { result, rerender } = run(TOP);
  await answer(0, 1);
  rerender({ panel: TOP, index: 'a', round: 1 });
  expect(result.current).toMatchObject({ status: 'running', stale: true, found: { response: { took: 1 } } });
  rerender({ panel: { ...TOP, kind: 'time' }, index: 'a', round: 1 });
  expect(result.current).toMatchObject({ status: 'running', found: null });
});
