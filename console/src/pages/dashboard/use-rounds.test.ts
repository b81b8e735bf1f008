// @vitest-environment jsdom
import { act, cleanup, renderHook } from '@testing-library/react';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { useRounds } from './use-rounds';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  cleanup();
  vi.useRealTimers();
});

const pass = (ms: number) => act(() => vi.advanceTimersByTime(ms));

test('the next round waits for slow panels', () => {
  const { result } = renderHook(() => useRounds(1000));
  act(() => {
    result.current.onBusy('a', true);
    result.current.onBusy('b', true);
  });
  act(() => result.current.onBusy('a', false));
  pass(60_000);
  expect(result.current.round).toBe(0);
  act(() => result.current.onBusy('b', false));
  pass(999);
  expect(result.current.round).toBe(0);
  pass(1);
  expect(result.current.round).toBe(1);
  // No panel is busy: the next round starts.
  pass(1000);
  expect(result.current.round).toBe(2);
});

test('without an interval only a refresh starts a round', () => {
  const { result } = renderHook(() => useRounds(0));
  pass(60_000);
  expect(result.current.round).toBe(0);
  act(() => result.current.again());
  expect(result.current.round).toBe(1);
});
