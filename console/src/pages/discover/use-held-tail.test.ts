// @vitest-environment jsdom
import { cleanup, renderHook } from '@testing-library/react';
import { afterEach, expect, it } from 'vitest';
import type { Hit } from '../../api/discover';
import { useHeldTail } from './use-held-tail';

afterEach(cleanup);

const hit = (id: string): Hit => ({ _index: 'a', _id: id });
const [one, two, three] = [hit('1'), hit('2'), hit('3')] as [Hit, Hit, Hit];

const rendered = () => renderHook(({ fresh, busy }: { fresh: Hit[]; busy: boolean }) => useHeldTail(fresh, busy), { initialProps: { fresh: [one], busy: false } });

it('shows new events while the user is not busy', () => {
  const { result, rerender } = rendered();
  expect(result.current).toEqual({ shown: [one], waiting: 0 });
  rerender({ fresh: [two, one], busy: false });
  expect(result.current).toEqual({ shown: [two, one], waiting: 0 });
});

it('holds new events back while the user is busy, and counts them', () => {
  const { result, rerender } = rendered();
  rerender({ fresh: [one], busy: true });
  rerender({ fresh: [two, one], busy: true });
  rerender({ fresh: [three, two, one], busy: true });
  expect(result.current).toEqual({ shown: [one], waiting: 2 });
  rerender({ fresh: [three, two, one], busy: false });
  expect(result.current).toEqual({ shown: [three, two, one], waiting: 0 });
});

it('counts all events if none was shown, or if the shown ones are no longer retained', () => {
  const { result, rerender } = rendered();
  rerender({ fresh: [], busy: true });
  rerender({ fresh: [two, one], busy: true });
  expect(result.current).toEqual({ shown: [], waiting: 2 });
  rerender({ fresh: [one], busy: false });
  rerender({ fresh: [one], busy: true });
  rerender({ fresh: [three, two], busy: true });
  expect(result.current).toEqual({ shown: [one], waiting: 2 });
});

it('drops events of a restarted tail', () => {
  const { result, rerender } = rendered();
  rerender({ fresh: [one], busy: true });
  rerender({ fresh: [], busy: true });
  expect(result.current).toEqual({ shown: [], waiting: 0 });
  rerender({ fresh: [two], busy: true });
  expect(result.current).toEqual({ shown: [], waiting: 1 });
});
