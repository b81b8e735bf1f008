import { useEffect, useState } from 'react';
import { type AsyncSearch, asyncSearch } from '../../api/async-search';
import { discover, type Estimate, type Question } from '../../api/discover';
import { errorFromObject, isAbort } from '../../api/errors';
import type { PanelSearch } from './search';
import type { Panel, PanelKind } from './state';

/** State of a panel's search. `found` of the previous search stays until there are new results. */
export interface PanelRun {
  status: 'running' | 'done' | 'failed' | 'estimate';
  found: AsyncSearch | null;
  /** Chart type of `found`: another type cannot read it. */
  kind: PanelKind | null;
  /** Whether `found` belongs to the previous search. */
  stale: boolean;
  error: unknown;
  /** Estimated cost. Frozen data is read only after the user accepts it. */
  estimate: Estimate | null;
}

const STARTED: PanelRun = { status: 'running', found: null, kind: null, stale: false, error: null, estimate: null };

interface Options {
  /** Null if there is nothing to search. */
  search: PanelSearch | null;
  panel: Panel;
  /** Discover request for a cost estimate; null if nothing is frozen, or if the cost has been accepted. */
  estimateOf: Question | null;
  /** A new number repeats the search. */
  round: number;
}

/** Runs the async search of a panel, and deletes it on the server when the panel unmounts. */
export function usePanel({ search, panel, estimateOf, round }: Options): PanelRun {
  const [run, setRun] = useState<PanelRun>(STARTED);
  const asked = search && JSON.stringify([search, panel.kind, estimateOf]);
  useEffect(() => {
    if (!search) return;
    const controller = new AbortController();
    const { signal } = controller;
    setRun((before) => (before.kind === panel.kind ? { ...STARTED, found: before.found, kind: before.kind, stale: before.found !== null } : STARTED));
    const go = async () => {
      const estimate = estimateOf && (await estimateFor(estimateOf, panel, signal));
      if (signal.aborted) return;
      if (estimate) {
        setRun({ ...STARTED, status: 'estimate', estimate });
        return;
      }
      for await (const found of asyncSearch(search.index, search.body, signal)) {
        // A response that arrives while the search changes does not belong to the new one.
        if (signal.aborted) return;
        if (found.error) throw errorFromObject(found.error, 500);
        setRun((before) => {
          // A running search may have no results yet: previous results are better than none.
          if (found.is_running && !found.response.aggregations) return before;
          return { ...STARTED, status: found.is_running ? 'running' : 'done', found, kind: panel.kind };
        });
      }
    };
    go().catch((error: unknown) => {
      if (!signal.aborted && !isAbort(error)) setRun({ ...STARTED, status: 'failed', error });
    });
    return () => controller.abort();
    // `asked` covers all inputs of the search.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [asked, round]);
  // Before the effect runs, the state may have another chart type.
  return run.kind === null || run.kind === panel.kind ? run : STARTED;
}

/** Fetches the estimated cost of a panel; null if the server would run it without asking. */
async function estimateFor(question: Question, panel: Panel, signal: AbortSignal): Promise<Estimate | null> {
  const stage = panel.kind === 'time' ? ({ stage: 'histogram', split_by: panel.field } as const) : ({ stage: 'top_values', field: panel.field } as const);
  for await (const event of discover(question, [stage], 'ask', signal)) {
    if (event.event === 'estimate') return event;
    if (event.event !== 'opened') return null;
  }
  return null;
}
