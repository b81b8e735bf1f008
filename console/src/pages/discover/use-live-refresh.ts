import { useEffect, useRef } from 'react';

/** How long the counts on the page may be behind the events of the live tail, and how often they are asked for at most. */
export const REFRESH_MS = 3000;

/**
 * Calls `refresh` while `events` of the live tail come: not for each of them, never twice at a time, and once more after the
 * last ones, also when the tail was stopped. As long as it is not `ready` they wait.
 */
export function useLiveRefresh(live: boolean, ready: boolean, events: readonly unknown[], refresh: () => Promise<void>): void {
  const latest = useRef({ ready, refresh, events });
  latest.current = { ready, refresh, events };
  /** What the counts on the page know of. */
  const known = useRef(events);
  const busy = useRef(false);
  useEffect(() => {
    const look = () => {
      const { ready, refresh, events } = latest.current;
      if (busy.current || !ready || events === known.current) return;
      known.current = events;
      if (events.length === 0) return;
      busy.current = true;
      void refresh().finally(() => (busy.current = false));
    };
    if (!live) {
      look();
      return;
    }
    known.current = latest.current.events;
    const timer = window.setInterval(look, REFRESH_MS);
    return () => window.clearInterval(timer);
  }, [live]);
}
