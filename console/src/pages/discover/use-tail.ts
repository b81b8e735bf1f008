import { useEffect, useRef, useState } from 'react';
import { type Hit, type Question, tail } from '../../api/discover';
import { errorFromObject } from '../../api/errors';
import type { ShardFailure } from '../../components/Partial';

/** Events of the tail that are kept: who wants older ones asks for them. */
const KEPT_MAX = 2000;
/** How long it is waited before a broken tail is begun anew. */
const AGAIN_MS = 3000;

export interface Tail {
  /** Newest first. */
  hits: Hit[];
  /** Events that came too fast to be shown. */
  dropped: number;
  connected: boolean;
  error: unknown;
  /** Shards whose new events are missing. */
  failures: ShardFailure[];
}

export const NO_TAIL: Tail = { hits: [], dropped: 0, connected: false, error: null, failures: [] };

/** Newer events before older ones, each once, and no more than are kept. */
export function withNewer(hits: readonly Hit[], newer: readonly Hit[]): Hit[] {
  return [...newer].reverse().concat(hits).slice(0, KEPT_MAX);
}

/** Events as they come, as long as `question` is there; broken connections are begun anew. */
export function useTail(question: Question | null): Tail {
  const [state, setState] = useState<Tail>(NO_TAIL);
  const key = question && JSON.stringify(question);
  const timer = useRef<number | undefined>(undefined);
  useEffect(() => {
    setState(NO_TAIL);
    if (!key) return;
    const abort = new AbortController();
    void follow();
    return () => {
      abort.abort();
      window.clearTimeout(timer.current);
    };

    async function follow() {
      let failed: unknown = null;
      try {
        for await (const event of tail(JSON.parse(key as string) as Question, abort.signal)) {
          if (abort.signal.aborted) return;
          if (event.event === 'opened') setState((state) => ({ ...state, connected: true, error: null }));
          else if (event.event === 'failed') failed = errorFromObject(event.error, event.status ?? 0);
          else if (event.event === 'hits') {
            const failures = event.shards?.failures ?? [];
            setState((state) => ({ ...state, hits: withNewer(state.hits, event.hits), dropped: state.dropped + event.dropped, error: null, failures }));
          }
        }
        throw failed ?? new Error('the server ended the live tail');
      } catch (error) {
        if (abort.signal.aborted) return;
        // Why it ended, if the server said so, is more than that it did.
        setState((state) => ({ ...state, connected: false, error: failed ?? error }));
        timer.current = window.setTimeout(() => void follow(), AGAIN_MS);
      }
    }
  }, [key]);
  return state;
}
