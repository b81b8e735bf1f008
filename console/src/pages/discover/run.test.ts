import { describe, expect, it } from 'vitest';
import type { DiscoverEvent, Done } from '../../api/discover';
import { ApiError } from '../../api/errors';
import { barsApart, IDLE_RUN, reduceRun, type Run, type RunAction } from './run';

const STAGES: RunAction = { type: 'start', key: 'one', stages: ['sample', 'histogram', 'cardinality'] };
const opened: DiscoverEvent = { event: 'opened', id: 'r', indices: ['a'], time: null, now_ms: 0, query_dsl: {} };
const shards = { total: 2, successful: 2, skipped: 0, failed: 0 };
const cost = { requests: 0, bytes: 0 };
const sample = (total: number) => ({ total: { value: total, relation: 'eq' as const }, hits: [], omitted: 0 });

function done(stage: 'sample' | 'histogram' | 'cardinality', result: unknown, more: object = {}): Done {
  return { event: 'done', stage, took_ms: 3, partial: false, timed_out: false, cached: false, shards, cost, result, ...more };
}

function after(...actions: (RunAction | DiscoverEvent)[]): Run {
  return actions.reduce((run, action) => reduceRun(run, 'type' in action ? action : { type: 'event', event: action }), IDLE_RUN);
}

describe('the stages of a run', () => {
  it('complete independently', () => {
    const run = after(STAGES, opened, done('sample', sample(7)));
    expect(run.sample).toMatchObject({ status: 'done', result: { total: { value: 7 } }, tookMs: 3 });
    expect([run.histogram.status, run.cardinality.status, run.running]).toEqual(['loading', 'loading', true]);
    const failed = after(STAGES, opened, { event: 'failed', stage: 'histogram', took_ms: 1, status: 400, error: { type: 'x', reason: 'too many buckets' } }, done('sample', sample(1)));
    expect(failed.histogram.error).toMatchObject({ message: 'too many buckets', status: 400, type: 'x' });
    expect(failed.sample.status).toBe('done');
    expect(failed.error).toBeNull();
  });

  it('report progress and partial results', () => {
    const far = { total: 8, done: 3, skipped: 1, failed: 0 };
    const run = after(STAGES, opened, { event: 'progress', stage: 'cardinality', shards: far }, { event: 'partial', stage: 'cardinality', shards: far, result: { fields: [] } });
    expect(run.cardinality).toMatchObject({ status: 'partial', progress: far, result: { fields: [] } });
  });

  it('report unknown fields of the current query', () => {
    const hints: DiscoverEvent = { event: 'hints', unknown_fields: [{ field: 'stauts', suggestion: 'status', corrected: 'status: 1' }] };
    const told = after(STAGES, opened, done('sample', sample(0)), hints);
    expect(told.unknownFields).toEqual(hints.unknown_fields);
    expect(told.histogram.status).toBe('loading');
    expect(after(STAGES, opened, hints, STAGES).unknownFields).toEqual([]);
  });

  it('are incomplete when shards are missing', () => {
    const failures = [{ shard: 0, index: 'a', reason: { type: 'x', reason: 'gone' } }];
    const run = after(STAGES, opened, done('sample', sample(1), { partial: true, shards: { ...shards, successful: 1, failed: 1, failures } }));
    expect(run.sample.incomplete).toEqual({ failures, failed: 1, total: 2, timedOut: false });
    expect(after(STAGES, opened, done('sample', sample(1), { partial: true, timed_out: true })).sample.incomplete).toMatchObject({ timedOut: true, failures: [] });
  });

  it('show previous results as stale until new ones arrive', () => {
    const again = after(STAGES, opened, done('sample', sample(7)), { event: 'end', took_ms: 9 }, STAGES);
    expect(again.sample).toMatchObject({ status: 'loading', stale: true, result: { total: { value: 7 } } });
    const answered = reduceRun(again, { type: 'event', event: done('sample', sample(8)) });
    expect(answered.sample).toMatchObject({ status: 'done', stale: false, result: { total: { value: 8 } } });
  });

  it('report the cost of frozen data, and can run alone', () => {
    const estimate: DiscoverEvent = { event: 'estimate', stage: 'histogram', requests: 900, bytes: 1e9, ms: 30_000, splits: 4 };
    const run = after(STAGES, opened, done('sample', sample(7)), estimate);
    expect(run.histogram).toMatchObject({ status: 'estimate', estimate: { requests: 900 }, result: null });
    const alone = reduceRun(run, { type: 'start_stage', stage: 'histogram' });
    expect([alone.histogram.status, alone.sample.status, alone.sample.stale]).toEqual(['loading', 'done', false]);
  });
});

describe('a run that does not end well', () => {
  const lost = new ApiError('firn cannot be reached: x', 0, 'unreachable');

  it('keeps completed stages and fails the others', () => {
    const run = after(STAGES, opened, done('sample', sample(7)), { type: 'broken', error: lost });
    expect([run.sample.status, run.histogram.status, run.histogram.error, run.error]).toEqual(['done', 'failed', lost, null]);
    expect(run.running).toBe(false);
  });

  it('has one error without any response, and keeps the previous results', () => {
    const run = after(STAGES, opened, done('sample', sample(7)), { event: 'end', took_ms: 1 }, STAGES, { type: 'broken', error: lost });
    expect(run.error).toBe(lost);
    expect(run.sample).toMatchObject({ status: 'idle', stale: true, result: { total: { value: 7 } } });
  });

  it('ends with the stream: no stage loads forever', () => {
    const run = after(STAGES, opened, done('sample', sample(7)), { event: 'end', took_ms: 1 });
    expect([run.sample.status, run.histogram.status, run.cardinality.status]).toEqual(['done', 'failed', 'failed']);
  });

  it('can be cancelled', () => {
    const run = after(STAGES, opened, done('sample', sample(7)), { type: 'cancelled' });
    expect([run.sample.status, run.histogram.status, run.running]).toEqual(['done', 'cancelled', false]);
  });
});

describe('bars with another sum than the total', () => {
  const bars = (...counts: number[]) => ({ buckets: counts.map((count) => ({ count })) });
  const apart = (...actions: (RunAction | DiscoverEvent)[]) => {
    const run = after(STAGES, opened, ...actions);
    return barsApart(run.sample, run.histogram, run.counted);
  };

  it('are reported only when both are known', () => {
    expect(apart(done('sample', sample(7)))).toBeNull();
    expect(apart(done('sample', sample(7)), done('histogram', bars(3, 4)))).toBeNull();
    expect(apart(done('sample', sample(7)), done('histogram', bars(3, 5)))).toBe(8);
    expect(apart(done('sample', { ...sample(7), total: { value: 7, relation: 'gte' } }), done('histogram', bars(3, 5)))).toBeNull();
  });

  it('are compared with the latest count', () => {
    const recounted: RunAction = { type: 'recounted', sample: done('sample', sample(8)), histogram: done('histogram', bars(8)) };
    expect(apart(done('sample', sample(7)), done('histogram', bars(3, 4)), recounted)).toBeNull();
    expect(apart(done('sample', sample(7)), done('histogram', bars(3, 4)), { ...recounted, histogram: null })).toBe(7);
  });
});
