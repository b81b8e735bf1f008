import { useEffect, useRef, useState } from 'react';
import { type Hit, type Question, tail } from '../../api/discover';
import { ApiError, errorFromObject } from '../../api/errors';
import type { ShardFailure } from '../../components/Partial';
import { parseJson } from '../../lib/json';

/** Maximum number of retained tail events. A refresh returns older ones. */
const KEPT_MAX = 2000;
/** Delay before reconnecting. */
const AGAIN_MS = 3000;

export interface Tail {
  /** Newest first. */
  hits: Hit[];
  /**
   * Number of hits of this connection. Events that arrived during a disconnect are only in the response, and may be
   * newer than earlier hits.
   */
  since: number;
  /** Number of events that arrived too fast to be shown. */
  dropped: number;
  connected: boolean;
  error: unknown;
  /** Shards whose new events are missing. */
  failures: ShardFailure[];
}

export const NO_TAIL: Tail = { hits: [], since: 0, dropped: 0, connected: false, error: null, failures: [] };

/** Puts newer events before older ones, up to the limit. */
export function withNewer(hits: readonly Hit[], newer: readonly Hit[]): Hit[] {
  return [...newer].reverse().concat(hits).slice(0, KEPT_MAX);
}

/**
 * Returns the request of the live tail: the request of the page once the server has answered it, so that an error of the
 * request shows once. If the server is unreachable, the tail starts too: it retries until the server is back, and then the
 * page refreshes. A running tail stays the same while the page refreshes.
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

/** The server, or a proxy's connection to it, is unavailable: the request itself may be valid. */
const isAway = (error: unknown) => error instanceof ApiError && [0, 502, 503, 504].includes(error.status);

/**
 * Follows new events while `question` is set, and reconnects after a failure. When the tail stops, its events stay until the
 * next `answer`, which contains them.
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
        // Prefers the server's reason to the fact that the connection ended.
        setState((state) => ({ ...state, connected: false, error: failed ?? error }));
        timer.current = window.setTimeout(() => void follow(), AGAIN_MS);
      }
    }
  }, [key]);
  return state;
}
