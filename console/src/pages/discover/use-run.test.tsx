// @vitest-environment jsdom
import { act, cleanup, renderHook } from '@testing-library/react';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { DiscoverEvent } from '../../api/discover';
import { type Asked, useRun } from './use-run';

interface Request {
  body: { query?: { text: string }; time?: object; frozen: string };
  signal: AbortSignal;
  send: (...events: DiscoverEvent[]) => Promise<void>;
}

let requests: Request[] = [];

beforeEach(() => {
  requests = [];
  vi.stubGlobal('fetch', (_: string, { body, signal }: { body: string; signal: AbortSignal }) => {
    let controller: ReadableStreamDefaultController<Uint8Array>;
    const stream = new ReadableStream<Uint8Array>({ start: (own) => void (controller = own) });
    const send = async (...events: DiscoverEvent[]) => {
      const text = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');
      await act(async () => {
        controller.enqueue(new TextEncoder().encode(text));
        await new Promise((done) => setTimeout(done, 5));
      });
    };
    requests.push({ body: JSON.parse(body) as Request['body'], signal, send });
    return Promise.resolve({ ok: true, body: stream });
  });
});

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

const asked = (text: string): Asked => ({ question: { index: 'a', time: { field: 't', from: 'now-1h', to: 'now', zone: 'UTC' }, query: { language: 'kql', text } }, histogram: { stage: 'histogram' }, runId: null });
const opened = (from_ms: number): DiscoverEvent => ({ event: 'opened', id: `r${from_ms}`, indices: ['a'], time: { field: 't', from_ms, to_ms: from_ms + 1, zone: 'UTC' }, now_ms: 0, query_dsl: {} });
const estimate: DiscoverEvent = { event: 'estimate', stage: 'histogram', requests: 900, bytes: 1e9, ms: 30_000, splits: 4 };
const show = (first: Asked) => renderHook((asked: Asked) => useRun(asked), { initialProps: first });

describe('the request of a question', () => {
  it('is sent before the page is drawn for it, and once', async () => {
    const { result, rerender } = show(asked('one'));
    expect(requests).toHaveLength(1);
    result.current.begin(asked('two'));
    expect(requests.map(({ body }) => body.query?.text)).toEqual(['one', 'two']);
    rerender(asked('two'));
    expect(requests).toHaveLength(2);
    await requests[1]?.send(opened(7));
    expect(result.current.run.opened?.id).toBe('r7');
    expect([requests[0]?.signal.aborted, requests[1]?.signal.aborted]).toEqual([true, false]);
  });

  it('is dropped if something else is asked after all', () => {
    const { result, rerender } = show(asked('one'));
    result.current.begin(asked('two'));
    rerender(asked('three'));
    expect(requests.map(({ signal }) => signal.aborted)).toEqual([true, true, false]);
  });
});

describe('what further requests are about', () => {
  it('is never a new question over the times of the one before', async () => {
    const { result, rerender } = show(asked('one'));
    expect(result.current.pinned).toBeNull();
    await requests[0]?.send(opened(7));
    expect(result.current.pinned).toMatchObject({ query: { text: 'one' }, time: { from: 7 } });
    rerender(asked('two'));
    expect(result.current.pinned).toMatchObject({ query: { text: 'one' }, time: { from: 7 } });
    await requests[1]?.send(opened(9));
    expect(result.current.pinned).toMatchObject({ query: { text: 'two' }, time: { from: 9 } });
  });

  it('stays what was answered while the same is asked again', async () => {
    const { result } = show(asked('one'));
    await requests[0]?.send(opened(7));
    act(() => result.current.again());
    expect(result.current.answered).toEqual(asked('one').question);
    expect(result.current.run.answered).toBe(false);
  });
});

describe('a stage that goes on alone', () => {
  it('can go on after all was cancelled, counts as running, and can be cancelled', async () => {
    const { result } = show(asked('one'));
    await requests[0]?.send(opened(7), estimate);
    act(() => result.current.cancel());
    act(() => result.current.goOn('histogram'));
    const alone = requests[1];
    expect([alone?.body.frozen, alone?.signal.aborted, result.current.run.running]).toEqual(['run', false, true]);
    act(() => result.current.cancel());
    expect([alone?.signal.aborted, result.current.run.running, result.current.run.histogram.status]).toEqual([true, false, 'cancelled']);
  });

  it('is not ended by the end of the others, and ends with the question', async () => {
    const { result, rerender } = show(asked('one'));
    await requests[0]?.send(opened(7), estimate);
    act(() => result.current.goOn('histogram'));
    await requests[0]?.send({ event: 'end', took_ms: 1 });
    expect([result.current.run.histogram.status, result.current.run.running]).toEqual(['loading', true]);
    rerender(asked('two'));
    expect(requests[1]?.signal.aborted).toBe(true);
  });
});
