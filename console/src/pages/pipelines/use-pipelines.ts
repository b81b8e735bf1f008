import { useQuery } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { listPipelines } from '../../api/event-pipelines';
import { type Reading, rateOf, readingOf } from './rates';

const REFRESH_MS = 2000;

/** All pipelines, refreshed, and the events per second that each read since the refresh before. */
export function usePipelines() {
  const query = useQuery({ queryKey: ['event-pipelines'], queryFn: ({ signal }) => listPipelines(signal), refetchInterval: REFRESH_MS, staleTime: 0 });
  const last = useRef<Reading | null>(null);
  const [readings, setReadings] = useState<{ before: Reading | null; now: Reading } | null>(null);
  const { data, dataUpdatedAt } = query;
  useEffect(() => {
    if (!data) return;
    const now = readingOf(data, dataUpdatedAt);
    setReadings({ before: last.current, now });
    last.current = now;
  }, [data, dataUpdatedAt]);
  const rate = (id: string) => readings && rateOf(id, readings.before, readings.now);
  return { query, rate };
}
