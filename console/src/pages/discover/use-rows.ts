import { useCallback, useMemo, useRef, useState } from 'react';
import { type Hit, discoverStage, type Question, type Sample } from '../../api/discover';
import { isAbort } from '../../api/errors';
import { appended, nextPageAfter } from '../../lib/paging';
import type { Run } from './run';

/** Events that are fetched at a time while scrolling. */
const PAGE_SIZE = 500;
/** Rows of the table: whoever needs more exports them, or narrows the question. */
export const ROWS_MAX = 100_000;

interface More {
  /** The run whose hits go on here. */
  runId: string | null;
  hits: Hit[];
  ended: boolean;
  loading: boolean;
  error: unknown;
}

const NOTHING: More = { runId: null, hits: [], ended: false, loading: false, error: null };

export interface Rows {
  hits: Hit[];
  hasMore: boolean;
  loading: boolean;
  error: unknown;
  loadMore: () => void;
}

/** The hits of a run, and the pages after them as far as somebody scrolls. */
export function useRows(run: Run, pinned: Question | null): Rows {
  const runId = run.opened?.id ?? null;
  const [state, setState] = useState<More>(NOTHING);
  const more = state.runId === runId ? state : NOTHING;
  const sample = run.sample.result;
  // The first page does not change any more once pages follow it.
  const hits = useMemo(() => (more.hits.length > 0 ? more.hits : (sample?.hits ?? [])), [more.hits, sample]);
  const total = sample?.total;
  const whole = total?.relation === 'eq' && hits.length >= total.value;
  const hasMore = !more.ended && !whole && !run.sample.stale && hits.length > 0 && hits.length < ROWS_MAX && run.answered;
  const busy = useRef<string | null>(null);

  const loadMore = useCallback(() => {
    const after = nextPageAfter(hits);
    if (!pinned || !hasMore || !after || !runId || busy.current === runId) return;
    busy.current = runId;
    setState({ runId, hits, ended: false, loading: true, error: null });
    const settle = (change: Partial<More>) => setState((state) => (state.runId === runId ? { ...state, loading: false, ...change } : state));
    discoverStage<Sample>(pinned, { stage: 'sample', size: Math.min(PAGE_SIZE, ROWS_MAX - hits.length + 1), search_after: after }, new AbortController().signal)
      .then(({ result, partial }) => {
        const next = appended(hits, result.hits);
        const ended = next.length === hits.length || (!partial && result.hits.length + result.omitted < Math.min(PAGE_SIZE, ROWS_MAX - hits.length + 1));
        settle({ hits: next, ended });
      })
      .catch((error: unknown) => settle(isAbort(error) ? {} : { error }))
      .finally(() => (busy.current = null));
  }, [hits, hasMore, pinned, runId]);

  return { hits, hasMore, loading: more.loading, error: more.error, loadMore };
}
