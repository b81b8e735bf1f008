import { describe, expect, it } from 'vitest';
import type { CatIndex, DataStream } from '../../api/indices';
import { hasFailed, indexRows, lifecycleText, streamRows } from './rows';

const cat = (index: string, part: Partial<CatIndex> = {}): CatIndex => ({
  index,
  health: 'green',
  status: 'open',
  pri: '2',
  'docs.count': '10',
  'store.size': '0',
  'dataset.size': '500',
  'creation.date': '1000',
  tier: 'frozen',
  ...part,
});
const stream = (name: string, ...indices: string[]): DataStream => ({
  name,
  indices: indices.map((index_name) => ({ index_name })),
  generation: 3,
  status: 'GREEN',
  hidden: false,
});

describe('indexRows', () => {
  it('adds data stream and lifecycle to each index', () => {
    const state = { index: 'a', managed: true, policy: 'p', phase: 'hot', action: 'rollover', step: 'check-rollover-ready' };
    const [a, b] = indexRows([cat('a'), cat('b')], [stream('logs', 'a')], { a: state });
    expect(a).toMatchObject({ stream: 'logs', lifecycle: state, documents: 10, storedBytes: 0, dataBytes: 500, tier: 'frozen' });
    expect(b).toMatchObject({ stream: null, lifecycle: null });
  });

  it('does not read missing figures as zero', () => {
    const [closed] = indexRows([cat('c', { status: 'close', 'docs.count': null, 'store.size': null, 'dataset.size': null, tier: null })], [], {});
    expect(closed).toMatchObject({ open: false, documents: null, storedBytes: null, tier: null });
  });
});

describe('streamRows', () => {
  it('adds up the backing indices, and lists their tiers, fastest first', () => {
    const rows = indexRows([cat('a'), cat('b', { tier: 'hot', 'docs.count': '5' }), cat('c', { tier: 'cold,frozen' })], [], {});
    expect(streamRows([stream('logs', 'a', 'b', 'c', 'gone')], rows)).toMatchObject([
      { name: 'logs', status: 'green', indices: 4, documents: 25, dataBytes: 1500, tiers: ['hot', 'cold', 'frozen'] },
    ]);
  });
});

describe('lifecycleText', () => {
  it.each([
    [null, null],
    [{ index: 'a', managed: false }, null],
    [{ index: 'a', managed: true, policy: 'p' }, 'p: not started'],
    [{ index: 'a', managed: true, phase: 'hot', action: 'complete', step: 'complete' }, 'hot: complete'],
    [{ index: 'a', managed: true, phase: 'frozen', action: 'searchable_snapshot', step: 'ERROR', failed_step: 'create-snapshot' }, 'frozen: create-snapshot failed'],
  ])('%j is %s', (state, text) => {
    expect(lifecycleText(state)).toBe(text);
  });

  it('recognizes failed steps', () => {
    expect(hasFailed({ index: 'a', managed: true, step: 'ERROR' })).toBe(true);
    expect(hasFailed({ index: 'a', managed: true, step: 'complete' })).toBe(false);
    expect(hasFailed(null)).toBe(false);
  });
});
