import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { type Hit, discoverStage, type Question, type Sample } from '../../api/discover';
import { appended, nextPageAfter } from '../../lib/paging';
import { incomplete, type Incomplete, type Run } from './run';

/** Events per page while scrolling. */
const PAGE_SIZE = 500;
/** Maximum number of rows. For more, users export the events or narrow the query. */
export const ROWS_MAX = 100_000;

interface More {
  /** Run that the hits belong to. */
  runId: string | null;
  hits: Hit[];
  ended: boolean;
  loading: boolean;
  error: unknown;
  /** Missing shards of the last incomplete page. */
  incomplete: Incomplete | null;
}

const NOTHING: More = { runId: null, hits: [], ended: false, loading: false, error: null, incomplete: null };

export interface Rows {
  hits: Hit[];
  hasMore: boolean;
  loading: boolean;
  error: unknown;
  /** Missing shards of the pages after the first. */
  incomplete: Incomplete | null;
  loadMore: () => void;
}

/** Returns the hits of a run, and loads further pages on demand. */
export function useRows(run: Run, pinned: Question | null): Rows {
  const runId = run.opened?.id ?? null;
  const [state, setState] = useState<More>(NOTHING);
  const more = state.runId === runId ? state : NOTHING;
  const sample = run.sample.result;
  // Once further pages are loaded, the first page no longer changes.
  const hits = useMemo(() => (more.hits.length > 0 ? more.hits : (sample?.hits ?? [])), [more.hits, sample]);
  const total = sample?.total;
  const whole = total?.relation === 'eq' && hits.length >= total.value;
  const hasMore = !more.ended && !whole && !run.sample.stale && hits.length > 0 && hits.length < ROWS_MAX && run.answered;
  const busy = useRef<AbortController | null>(null);
  // A page of results that are no longer shown is aborted.
  useEffect(
    () => () => {
      busy.current?.abort('replaced');
      busy.current = null;
    },
    [runId],
  );

  const loadMore = useCallback(() => {
    const after = nextPageAfter(hits);
    if (!pinned || !hasMore || !after || !runId || busy.current) return;
    const abort = new AbortController();
    busy.current = abort;
    const size = Math.min(PAGE_SIZE, ROWS_MAX - hits.length + 1);
    setState((state) => ({ ...NOTHING, runId, hits, loading: true, incomplete: state.runId === runId ? state.incomplete : null }));
    const settle = (change: Partial<More>) => setState((state) => (state.runId === runId ? { ...state, loading: false, ...change } : state));
    discoverStage<Sample>(pinned, { stage: 'sample', size, search_after: after, highlight: true }, abort.signal)
      .then((done) => {
        const next = appended(hits, done.result.hits);
        const ended = next.length === hits.length || (!done.partial && done.result.hits.length + done.result.omitted < size);
        const left = incomplete(done);
        settle({ hits: next, ended, ...(left && { incomplete: left }) });
      })
      .catch((error: unknown) => abort.signal.aborted || settle({ error }))
      .finally(() => {
        if (busy.current === abort) busy.current = null;
      });
  }, [hits, hasMore, pinned, runId]);

  const { loading, error, incomplete: left } = more;
  return useMemo(() => ({ hits, hasMore, loading, error, incomplete: left, loadMore }), [hits, hasMore, loading, error, left, loadMore]);
}
