import { expect, test } from 'vitest';
import type { Pipeline } from '../../api/event-pipelines';
import { rateOf, readingOf } from './rates';

const pipelines = (read: number): Pipeline[] => [
  {
    id: 'web',
    definition: { source: { type: 'http' }, index: 'web' },
    stats: {
      running: true,
      error: null,
      since_start: { read, read_bytes: 0, indexed: read, filtered: 0, dead_lettered: 0, refused: 0, in_flight: 0 },
      source: {},
      steps: { map_time_in_millis: 0, write_time_in_millis: 0, write_retries: 0 },
      tables: [], windows: null, partitions: [],
    },
  },
  { id: 'new', definition: { source: { type: 'http' }, index: 'new' }, stats: undefined },
];

test('a rate needs two readings of a pipeline that ran through', () => {
  const [first, second] = [readingOf(pipelines(100), 1000), readingOf(pipelines(350), 3000)];
  expect(rateOf('web', first, second)).toBe(125);
  expect(rateOf('web', null, second)).toBeNull();
  expect(rateOf('new', first, second)).toBeNull();
  expect(rateOf('web', second, first)).toBeNull();
  expect(rateOf('web', first, readingOf(pipelines(7), 5000))).toBeNull();
});
