import { useEffect, useState } from 'react';
import { type AsyncSearch, asyncSearch } from '../../api/async-search';
import { discover, type Estimate, type Question } from '../../api/discover';
import { errorFromObject, isAbort } from '../../api/errors';
import type { PanelSearch } from './search';
import type { Panel, PanelKind } from './state';

/** What is known of a panel. `found` of a question before stays until there is something newer. */
export interface PanelRun {
  status: 'running' | 'done' | 'failed' | 'estimate';
  found: AsyncSearch | null;
  /** What `found` is drawn as: of another kind it cannot be read. */
  kind: PanelKind | null;
  /** Whether `found` is of the question before. */
  stale: boolean;
  error: unknown;
  /** What the answer would cost: frozen data is not read unasked. */
  estimate: Estimate | null;
}

const STARTED: PanelRun = { status: 'running', found: null, kind: null, stale: false, error: null, estimate: null };

interface Options {
  /** Null: there is nothing to ask. */
  search: PanelSearch | null;
  panel: Panel;
  /** What to ask Discover for an estimate with; null: none of it is frozen, or its cost has been accepted. */
  estimateOf: Question | null;
  /** Another number asks again. */
  round: number;
}

/** Runs a panel's search in the background of the server, and ends it there when nobody looks any more. */
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
        // What came in the moment of another question is none of its answer.
        if (signal.aborted) return;
        if (found.error) throw errorFromObject(found.error, 500);
        setRun((before) => {
          // What a running search has found may be nothing yet: the picture before is better than none.
          if (found.is_running && !found.response.aggregations) return before;
          return { ...STARTED, status: found.is_running ? 'running' : 'done', found, kind: panel.kind };
        });
      }
    };
    go().catch((error: unknown) => {
      if (!signal.aborted && !isAbort(error)) setRun({ ...STARTED, status: 'failed', error });
    });
    return () => controller.abort();
    // `asked` says all that the search is of.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [asked, round]);
  // Before the effect has run, what there is may be of another kind.
  return run.kind === null || run.kind === panel.kind ? run : STARTED;
}

/** What the panel would read of frozen data; null: nothing worth a question. Ends as soon as that is known. */
async function estimateFor(question: Question, panel: Panel, signal: AbortSignal): Promise<Estimate | null> {
  const stage = panel.kind === 'time' ? ({ stage: 'histogram', split_by: panel.field } as const) : ({ stage: 'top_values', field: panel.field } as const);
  for await (const event of discover(question, [stage], 'ask', signal)) {
    if (event.event === 'estimate') return event;
    if (event.event !== 'opened') return null;
  }
  return null;
}
