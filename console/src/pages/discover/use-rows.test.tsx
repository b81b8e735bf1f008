// @vitest-environment jsdom
import { act, cleanup, renderHook } from '@testing-library/react';
import { afterEach, expect, it, vi } from 'vitest';
import type { Done, Hit, Question } from '../../api/discover';
import { IDLE_RUN, reduceRun, type Run } from './run';
import { useRows } from './use-rows';

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

const question: Question = { index: 'a' };
const hits = (from: number, count: number): Hit[] => Array.from({ length: count }, (_, at) => ({ _index: 'a', _id: String(from + at), sort: [from + at] }));
const shards = { total: 2, successful: 1, skipped: 0, failed: 1, failures: [{ shard: 0, index: 'a' }] };
const done = (found: Hit[], more: Partial<Done>): Done => ({
  event: 'done',
  stage: 'sample',
  took_ms: 1,
  partial: false,
  timed_out: false,
  cached: false,
  shards: { ...shards, failed: 0 },
  cost: { requests: 0, bytes: 0 },
  result: { total: { value: 1000, relation: 'eq' }, hits: found, omitted: 0 },
  ...more,
});

function answered(id: string): Run {
  const started = reduceRun(IDLE_RUN, { type: 'start', key: '{}', stages: ['sample'] });
  const opened = reduceRun(started, { type: 'event', event: { event: 'opened', id, indices: ['a'], time: null, now_ms: 0, query_dsl: {} } });
  return reduceRun(opened, { type: 'event', event: done(hits(0, 100), {}) });
}

it('reports the missing shards of a further page', async () => {
  const page = done(hits(100, 500), { partial: true, shards });
  vi.stubGlobal('fetch', () => Promise.resolve(new Response(`data: ${JSON.stringify(page)}\n\n`)));
  const { result } = renderHook(() => useRows(answered('one'), question));
  await act(async () => {
    result.current.loadMore();
    await new Promise((done) => setTimeout(done, 20));
  });
  expect(result.current.hits).toHaveLength(600);
  expect(result.current.incomplete).toMatchObject({ failed: 1, total: 2 });
});

it('aborts the request for a page when its results are no longer shown', () => {
  const signals: AbortSignal[] = [];
  vi.stubGlobal('fetch', (_: string, { signal }: { signal: AbortSignal }) => {
    signals.push(signal);
    return new Promise(() => {});
  });
  const { result, rerender, unmount } = renderHook((id: string) => useRows(answered(id), question), { initialProps: 'one' });
  act(() => result.current.loadMore());
  rerender('two');
  act(() => result.current.loadMore());
  expect(signals.map(({ aborted }) => aborted)).toEqual([true, false]);
  unmount();
  expect(signals[1]?.aborted).toBe(true);
});
