// @vitest-environment jsdom
import { cleanup, renderHook } from '@testing-library/react';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { REFRESH_MS, useLiveRefresh } from './use-live-refresh';

beforeEach(() => void vi.useFakeTimers());

afterEach(() => {
  cleanup();
  vi.useRealTimers();
});

interface Props {
  live: boolean;
  ready?: boolean;
  events: readonly unknown[];
}

/** The hook, and how many of its calls have begun; `end` ends the one that runs. */
function show(first: Props) {
  let begun = 0;
  let end = () => {};
  const refresh = () => {
    begun += 1;
    return new Promise<void>((done) => (end = done));
  };
  const { rerender } = renderHook(({ live, ready = true, events }: Props) => useLiveRefresh(live, ready, events, refresh), { initialProps: first });
  return { rerender, begun: () => begun, end: () => end() };
}

test('counts are asked for at a pace, however many events come', async () => {
  const { rerender, begun, end } = show({ live: true, events: [] });
  await vi.advanceTimersByTimeAsync(5 * REFRESH_MS);
  expect(begun()).toBe(0);
  for (let at = 1; at <= 100; at += 1) rerender({ live: true, events: Array(at) });
  await vi.advanceTimersByTimeAsync(REFRESH_MS);
  expect(begun()).toBe(1);
  end();
  // Nothing has come since.
  await vi.advanceTimersByTimeAsync(5 * REFRESH_MS);
  expect(begun()).toBe(1);
});

test('counts are asked for once at a time, and what came meanwhile is asked for afterwards', async () => {
  const { rerender, begun, end } = show({ live: true, events: [] });
  rerender({ live: true, events: [1] });
  await vi.advanceTimersByTimeAsync(REFRESH_MS);
  rerender({ live: true, events: [2, 1] });
  await vi.advanceTimersByTimeAsync(5 * REFRESH_MS);
  expect(begun()).toBe(1);
  end();
  await vi.advanceTimersByTimeAsync(REFRESH_MS);
  expect(begun()).toBe(2);
});

test('what comes while counts are asked for otherwise waits for those', async () => {
  const { rerender, begun } = show({ live: true, events: [] });
  rerender({ live: true, ready: false, events: [1] });
  await vi.advanceTimersByTimeAsync(5 * REFRESH_MS);
  expect(begun()).toBe(0);
  rerender({ live: true, ready: true, events: [1] });
  await vi.advanceTimersByTimeAsync(REFRESH_MS);
  expect(begun()).toBe(1);
});

test('what came last is counted when the tail is stopped, and nothing after that', async () => {
  const { rerender, begun, end } = show({ live: true, events: [] });
  const events = [1];
  rerender({ live: true, events });
  rerender({ live: false, events });
  expect(begun()).toBe(1);
  end();
  await vi.advanceTimersByTimeAsync(5 * REFRESH_MS);
  expect(begun()).toBe(1);
});

test('a tail that is stopped after its last events were counted asks no more', async () => {
  const { rerender, begun, end } = show({ live: true, events: [] });
  const events = [1];
  rerender({ live: true, events });
  await vi.advanceTimersByTimeAsync(REFRESH_MS);
  end();
  rerender({ live: false, events });
  await vi.advanceTimersByTimeAsync(5 * REFRESH_MS);
  expect(begun()).toBe(1);
});

test('without a tail nothing is asked for', async () => {
  const { rerender, begun } = show({ live: false, events: [1] });
  rerender({ live: false, events: [2] });
  await vi.advanceTimersByTimeAsync(5 * REFRESH_MS);
  expect(begun()).toBe(0);
});
