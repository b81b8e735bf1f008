// @vitest-environment jsdom
import { cleanup, renderHook } from '@testing-library/react';
import { afterEach, expect, it } from 'vitest';
import type { Question } from '../../api/discover';
import { errorFromObject, unreachable } from '../../api/errors';
import { useTailed } from './use-tail';

afterEach(cleanup);

const question: Question = { index: 'a' };
const other: Question = { index: 'b' };

interface Props {
  live?: boolean;
  asked?: Question | null;
  answered?: Question | null;
  error?: unknown;
}

const rendered = (first: Props) => renderHook(({ live = true, asked = question, answered = null, error = null }: Props) => useTailed(live, asked, answered, error), { initialProps: first });

it('starts with the response', () => {
  const { result, rerender } = rendered({});
  expect(result.current).toBeNull();
  rerender({ answered: other });
  expect(result.current).toBeNull();
  rerender({ answered: question });
  expect(result.current).toEqual(question);
  rerender({ answered: question, live: false });
  expect(result.current).toBeNull();
});

it('starts if the server died before it answered, and stays while the page refreshes', () => {
  const { result, rerender } = rendered({});
  rerender({ error: unreachable('gone') });
  expect(result.current).toEqual(question);
  // The server is back, but has not answered yet.
  rerender({});
  expect(result.current).toEqual(question);
  rerender({ asked: other });
  expect(result.current, 'another request has to be answered first').toBeNull();
  rerender({});
  rerender({ live: false });
  rerender({});
  expect(result.current, 'it restarts after being switched off and on').toBeNull();
});

it('starts if the server is still starting', () => {
  const { result } = rendered({ error: errorFromObject({ type: 'error', reason: 'Service Unavailable' }, 503) });
  expect(result.current).toEqual(question);
});

it('does not follow what the server refused', () => {
  const { result } = rendered({ error: errorFromObject({ type: 'index_not_found_exception', reason: 'no such index [a]' }, 404) });
  expect(result.current).toBeNull();
});
