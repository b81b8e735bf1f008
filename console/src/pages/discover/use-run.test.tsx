// @vitest-environment jsdom
import { act, cleanup, renderHook } from '@testing-library/react';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { DiscoverEvent } from '../../api/discover';
import { type Asked, useRun } from './use-run';

interface Request {
  body: { query?: { text: string }; time?: object; frozen: string; stages?: object[] };
  signal: AbortSignal;
  send: (...events: DiscoverEvent[]) => Promise<void>;
  close: () => Promise<void>;
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
    const close = () => act(async () => {
      controller.close();
      await new Promise((done) => setTimeout(done, 5));
    });
    requests.push({ body: JSON.parse(body) as Request['body'], signal, send, close });
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

describe('the request of a new state', () => {
  it('is sent before the page renders, and only once', async () => {
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

  it('is aborted if the page then sends another one', () => {
    const { result, rerender } = show(asked('one'));
    result.current.begin(asked('two'));
    rerender(asked('three'));
    expect(requests.map(({ signal }) => signal.aborted)).toEqual([true, true, false]);
  });
});

describe('the pinned request', () => {
  it('never combines a new query with the times of the previous one', async () => {
    const { result, rerender } = show(asked('one'));
    expect(result.current.pinned).toBeNull();
    await requests[0]?.send(opened(7));
    expect(result.current.pinned).toMatchObject({ query: { text: 'one' }, time: { from: 7 } });
    rerender(asked('two'));
    expect(result.current.pinned).toMatchObject({ query: { text: 'one' }, time: { from: 7 } });
    await requests[1]?.send(opened(9));
    expect(result.current.pinned).toMatchObject({ query: { text: 'two' }, time: { from: 9 } });
  });

  it('stays during a refresh', async () => {
    const { result } = show(asked('one'));
    await requests[0]?.send(opened(7));
    act(() => result.current.again());
    expect(result.current.answered).toEqual(asked('one').question);
    expect(result.current.run.answered).toBe(false);
  });
});

describe('counts that are requested again', () => {
  const done = { event: 'done' as const, took_ms: 1, partial: false, timed_out: false, cached: false, shards: { total: 1, successful: 1, skipped: 0, failed: 0 }, cost: { requests: 0, bytes: 0 } };
  const bars = (interval: string): DiscoverEvent => ({ ...done, stage: 'histogram', result: { interval } });
  const total = (value: number, partial = false): DiscoverEvent => ({ ...done, partial, stage: 'sample', result: { total: { value, relation: 'eq' }, hits: [], omitted: 0 } });
  const end: DiscoverEvent = { event: 'end', took_ms: 1 };

  it('include new events, come from one request, and replace the old ones together', async () => {
    const { result } = show(asked('one'));
    await requests[0]?.send(opened(7), total(10), bars('1m'), end);
    let ended = false;
    act(() => void result.current.recount().then(() => (ended = true)));
    expect(requests[1]?.body).toMatchObject({ frozen: 'ask', time: { from: 'now-1h', to: 'now' }, stages: [{ stage: 'sample', size: 0 }, { stage: 'histogram' }] });
    await requests[1]?.send({ event: 'progress', stage: 'histogram', shards: { total: 2, done: 1, skipped: 0, failed: 0 } }, total(12));
    expect([result.current.run.histogram.status, result.current.run.running, result.current.run.counted]).toEqual(['done', false, null]);
    await requests[1]?.send(bars('5m'), end);
    await requests[1]?.close();
    expect(ended).toBe(true);
    expect(result.current.run).toMatchObject({ counted: { value: 12 }, histogram: { status: 'done', result: { interval: '5m' } } });
    // Rows and exports still belong to the first response.
    expect(result.current.run.sample.result?.total.value).toBe(10);
    act(() => result.current.again());
    expect(result.current.run.counted).toBeNull();
  });

  it('do not replace complete counts by incomplete ones, nor bars by an estimate', async () => {
    const { result } = show(asked('one'));
    await requests[0]?.send(opened(7), total(10), bars('1m'), end);
    act(() => void result.current.recount());
    await requests[1]?.send(total(5, true), estimate, end);
    await requests[1]?.close();
    expect(result.current.run).toMatchObject({ counted: null, histogram: { status: 'done', result: { interval: '1m' } } });
  });

  it('replace counts that were incomplete before', async () => {
    const { result } = show(asked('one'));
    await requests[0]?.send(opened(7), total(5, true), estimate, end);
    act(() => void result.current.recount());
    expect(requests[1]?.body).toMatchObject({ stages: [{ stage: 'sample', size: 0 }] });
    await requests[1]?.send(total(6, true), end);
    await requests[1]?.close();
    expect(result.current.run.counted?.value).toBe(6);
  });

  it('end with the request, and are not requested before a response', async () => {
    const { result, rerender } = show(asked('one'));
    await act(() => result.current.recount());
    expect(requests).toHaveLength(1);
    await requests[0]?.send(opened(7), bars('1m'));
    act(() => void result.current.recount());
    rerender(asked('two'));
    expect(requests[1]?.signal.aborted).toBe(true);
  });
});

describe('a stage that runs alone', () => {
  it('can start after a cancel, counts as running, and can be cancelled', async () => {
    const { result } = show(asked('one'));
    await requests[0]?.send(opened(7), estimate);
    act(() => result.current.cancel());
    act(() => result.current.goOn('histogram'));
    const alone = requests[1];
    expect([alone?.body.frozen, alone?.signal.aborted, result.current.run.running]).toEqual(['run', false, true]);
    act(() => result.current.cancel());
    expect([alone?.signal.aborted, result.current.run.running, result.current.run.histogram.status]).toEqual([true, false, 'cancelled']);
  });

  it('fails if the server ends the response without a result', async () => {
    const { result } = show(asked('one'));
    await requests[0]?.send(opened(7), estimate);
    act(() => result.current.goOn('histogram'));
    await requests[1]?.send(opened(7), { event: 'progress', stage: 'histogram', shards: { total: 2, done: 1, skipped: 0, failed: 0 } }, { event: 'end', took_ms: 1 });
    await requests[1]?.close();
    expect(result.current.run.histogram.status).toBe('failed');
  });

  it('does not end with the other stages, but with the request', async () => {
    const { result, rerender } = show(asked('one'));
    await requests[0]?.send(opened(7), estimate);
    act(() => result.current.goOn('histogram'));
    await requests[0]?.send({ event: 'end', took_ms: 1 });
    expect([result.current.run.histogram.status, result.current.run.running]).toEqual(['loading', true]);
    rerender(asked('two'));
    expect(requests[1]?.signal.aborted).toBe(true);
  });
});
