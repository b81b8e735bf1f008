// @vitest-environment jsdom
import { cleanup, renderHook, waitFor } from '@testing-library/react';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Hit, Question } from '../../api/discover';
import { useTail } from './use-tail';

interface Props {
  question: Question | null;
  answer: object | null;
}

let send: (...hits: Hit[]) => void;
let breakOff: () => void;

beforeEach(() => {
  vi.stubGlobal('fetch', () => {
    let controller: ReadableStreamDefaultController<Uint8Array>;
    const body = new ReadableStream<Uint8Array>({ start: (own) => void (controller = own) });
    const tell = (event: object) => controller.enqueue(new TextEncoder().encode(`data: ${JSON.stringify(event)}\n\n`));
    tell({ event: 'opened', id: '1', indices: [], time: null, now_ms: 0, query_dsl: {} });
    send = (...hits) => tell({ event: 'hits', hits, dropped: 0 });
    breakOff = () => controller.close();
    return Promise.resolve(new Response(body));
  });
});

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

const hit = (id: string): Hit => ({ _index: 'a', _id: id });
const question = { index: 'a' };
const first = { id: 'answer' };

async function followed() {
  const shown = renderHook(({ question, answer }: Props) => useTail(question, answer), { initialProps: { question, answer: first } as Props });
  await waitFor(() => expect(shown.result.current.connected).toBe(true));
  send(hit('1'), hit('2'));
  await waitFor(() => expect(shown.result.current.hits.map(({ _id }) => _id)).toEqual(['2', '1']));
  return shown;
}

it('keeps its events when it stops, until the next response', async () => {
  const { result, rerender } = await followed();
  rerender({ question: null, answer: first });
  expect([result.current.hits.length, result.current.connected, result.current.error]).toEqual([2, false, null]);
  rerender({ question: null, answer: { id: 'answer' } });
  expect(result.current.hits).toEqual([]);
});

it('keeps its events when the page refreshes while it runs', async () => {
  const { result, rerender } = await followed();
  rerender({ question, answer: { id: 'another' } });
  expect(result.current.hits).toHaveLength(2);
});

it('drops events from before a disconnect with the next response, which may contain newer ones', async () => {
  const { result, rerender } = await followed();
  breakOff();
  await waitFor(() => expect(result.current.connected).toBe(false));
  expect(result.current.hits).toHaveLength(2);
  await waitFor(() => expect(result.current.connected).toBe(true), { timeout: 5000 });
  send(hit('4'));
  await waitFor(() => expect(result.current.hits).toHaveLength(3));
  rerender({ question, answer: { id: 'another' } });
  expect(result.current.hits.map(({ _id }) => _id)).toEqual(['4']);
});

it('starts empty when it is restarted, or for another request', async () => {
  const { result, rerender } = await followed();
  rerender({ question: null, answer: first });
  rerender({ question, answer: first });
  expect(result.current.hits).toEqual([]);
  await waitFor(() => expect(result.current.connected).toBe(true));
  send(hit('3'));
  await waitFor(() => expect(result.current.hits.map(({ _id }) => _id)).toEqual(['3']));
  rerender({ question: { index: 'b' }, answer: first });
  expect(result.current.hits).toEqual([]);
});
