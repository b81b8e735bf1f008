import { useEffect, useRef } from 'react';

/** Maximum delay of the counts behind the live tail, and minimum time between their requests. */
export const REFRESH_MS = 3000;

/**
 * Calls `refresh` while `events` of the live tail arrive: at a limited rate, never concurrently, and once more after the last
 * ones, also when the tail stops. While `ready` is false, the refresh waits.
 */
export function useLiveRefresh(live: boolean, ready: boolean, events: readonly unknown[], refresh: () => Promise<void>): void {
  const latest = useRef({ ready, refresh, events });
  latest.current = { ready, refresh, events };
  /** Events that the counts on the page include. */
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
