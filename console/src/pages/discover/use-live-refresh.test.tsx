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

/** Renders the hook and counts its calls; `end` completes the running one. */
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

test('counts are requested at a limited rate for any number of events', async () => {
  const { rerender, begun, end } = show({ live: true, events: [] });
  await vi.advanceTimersByTimeAsync(5 * REFRESH_MS);
  expect(begun()).toBe(0);
  for (let at = 1; at <= 100; at += 1) rerender({ live: true, events: Array(at) });
  await vi.advanceTimersByTimeAsync(REFRESH_MS);
  expect(begun()).toBe(1);
  end();
  // No event has arrived since.
  await vi.advanceTimersByTimeAsync(5 * REFRESH_MS);
  expect(begun()).toBe(1);
});

test('only one request for counts runs, and events that arrive meanwhile cause another one', async () => {
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

test('events that arrive during another request wait for it', async () => {
  const { rerender, begun } = show({ live: true, events: [] });
  rerender({ live: true, ready: false, events: [1] });
  await vi.advanceTimersByTimeAsync(5 * REFRESH_MS);
  expect(begun()).toBe(0);
  rerender({ live: true, ready: true, events: [1] });
  await vi.advanceTimersByTimeAsync(REFRESH_MS);
  expect(begun()).toBe(1);
});

test('the last events are counted when the tail stops, and nothing after that', async () => {
  const { rerender, begun, end } = show({ live: true, events: [] });
  const events = [1];
  rerender({ live: true, events });
  rerender({ live: false, events });
  expect(begun()).toBe(1);
  end();
  await vi.advanceTimersByTimeAsync(5 * REFRESH_MS);
  expect(begun()).toBe(1);
});

test('a tail that stops after its last events were counted sends no more requests', async () => {
  const { rerender, begun, end } = show({ live: true, events: [] });
  const events = [1];
  rerender({ live: true, events });
  await vi.advanceTimersByTimeAsync(REFRESH_MS);
  end();
  rerender({ live: false, events });
  await vi.advanceTimersByTimeAsync(5 * REFRESH_MS);
  expect(begun()).toBe(1);
});

test('without a tail there are no requests', async () => {
  const { rerender, begun } = show({ live: false, events: [1] });
  rerender({ live: false, events: [2] });
  await vi.advanceTimersByTimeAsync(5 * REFRESH_MS);
  expect(begun()).toBe(0);
});
