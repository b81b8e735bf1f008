import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { type Hit, discoverStage, type Question, type Sample } from '../../api/discover';
import { appended, nextPageAfter } from '../../lib/paging';
import { incomplete, type Incomplete, type Run } from './run';

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
  /** What the last page that was not whole leaves out. */
  incomplete: Incomplete | null;
}

const NOTHING: More = { runId: null, hits: [], ended: false, loading: false, error: null, incomplete: null };

export interface Rows {
  hits: Hit[];
  hasMore: boolean;
  loading: boolean;
  error: unknown;
  /** What pages after the first leave out: such a page never passes for all of it. */
  incomplete: Incomplete | null;
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
  const busy = useRef<AbortController | null>(null);
  // Nobody waits for a page of what is no longer shown.
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
