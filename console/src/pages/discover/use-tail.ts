import { useEffect, useRef, useState } from 'react';
import { type Hit, type Question, tail } from '../../api/discover';
import { ApiError, errorFromObject } from '../../api/errors';
import type { ShardFailure } from '../../components/Partial';
import { parseJson } from '../../lib/json';

/** Events of the tail that are kept: who wants older ones asks for them. */
const KEPT_MAX = 2000;
/** How long it is waited before a broken tail is begun anew. */
const AGAIN_MS = 3000;

export interface Tail {
  /** Newest first. */
  hits: Hit[];
  /** Those of this connection: what came while it was broken is in the answer alone, and may be newer than the others. */
  since: number;
  /** Events that came too fast to be shown. */
  dropped: number;
  connected: boolean;
  error: unknown;
  /** Shards whose new events are missing. */
  failures: ShardFailure[];
}

export const NO_TAIL: Tail = { hits: [], since: 0, dropped: 0, connected: false, error: null, failures: [] };

/** Newer events before older ones, each once, and no more than are kept. */
export function withNewer(hits: readonly Hit[], newer: readonly Hit[]): Hit[] {
  return [...newer].reverse().concat(hits).slice(0, KEPT_MAX);
}

/**
 * What the tail is about: a question once the server has answered it, so that what is wrong with it is said once. One that could
 * not be asked is followed too: its tail tries until the server is back, and then the page asks. Once begun it stays the same while
 * the page asks again.
 */
export function useTailed(live: boolean, question: Question | null, answered: Question | null, error: unknown): Question | null {
  const [begun, setBegun] = useState<string | null>(null);
  const key = live && question ? JSON.stringify(question) : null;
  const ready = key !== null && (isAway(error) || JSON.stringify(answered) === key);
  useEffect(() => {
    if (key === null) setBegun(null);
    else if (ready) setBegun(key);
  }, [key, ready]);
  return key !== null && (ready || begun === key) ? question : null;
}

/** Nobody answered, or somebody between who found nobody: what was asked may be right. */
const isAway = (error: unknown) => error instanceof ApiError && [0, 502, 503, 504].includes(error.status);

/**
 * Events as they come, as long as `question` is there; broken connections are begun anew. What came stays to be read when the tail
 * is stopped, until there is another `answer`: that has them.
 */
export function useTail(question: Question | null, answer: object | null): Tail {
  const [state, setState] = useState<Tail>(NO_TAIL);
  const key = question && JSON.stringify(question);
  const following = useRef(false);
  const timer = useRef<number | undefined>(undefined);
  useEffect(() => {
    setState((state) => {
      if (!following.current) return NO_TAIL;
      return state.since < state.hits.length ? { ...state, hits: state.hits.slice(0, state.since) } : state;
    });
  }, [answer]);
  useEffect(() => {
    following.current = key !== null;
    if (!key) {
      setState(({ hits, since, dropped }) => (hits.length > 0 ? { ...NO_TAIL, hits, since, dropped } : NO_TAIL));
      return;
    }
    setState(NO_TAIL);
    const abort = new AbortController();
    void follow();
    return () => {
      abort.abort();
      window.clearTimeout(timer.current);
    };

    async function follow() {
      let failed: unknown = null;
      try {
        for await (const event of tail(parseJson(key as string) as Question, abort.signal)) {
          if (abort.signal.aborted) return;
          if (event.event === 'opened') setState((state) => ({ ...state, since: 0, connected: true, error: null }));
          else if (event.event === 'failed') failed = errorFromObject(event.error, event.status ?? 0);
          else if (event.event === 'hits') {
            const failures = event.shards?.failures ?? [];
            setState((state) => ({ ...state, hits: withNewer(state.hits, event.hits), since: state.since + event.hits.length, dropped: state.dropped + event.dropped, error: null, failures }));
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
