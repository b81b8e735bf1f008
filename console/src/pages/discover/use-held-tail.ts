import { useState } from 'react';
import type { Hit } from '../../api/discover';

export interface HeldTail {
  /** Events of the live tail that are shown, newest first. */
  shown: Hit[];
  /** Number of newer events that are held back. */
  waiting: number;
}

/** Returns the held events: null, or those that were shown when the user became busy. */
export function heldEvents(held: Hit[] | null, fresh: Hit[], busy: boolean): Hit[] | null {
  if (!busy) return null;
  // A restarted tail, or one whose events are now in the response, no longer contains the held events.
  if (held === null || (fresh.length === 0 && held.length > 0)) return fresh;
  return held;
}

/** Returns the number of tail events that are newer than the shown ones. */
export function waitingEvents(shown: readonly Hit[], fresh: readonly Hit[]): number {
  const newest = shown[0];
  const at = newest ? fresh.indexOf(newest) : fresh.length;
  // So many arrived that the shown events are no longer retained.
  return at < 0 ? fresh.length : at;
}

/** Holds new events back while the user is `busy`, so that rows do not move. */
export function useHeldTail(fresh: Hit[], busy: boolean): HeldTail {
  const [held, setHeld] = useState<Hit[] | null>(null);
  const next = heldEvents(held, fresh, busy);
  if (next !== held) setHeld(next);
  const shown = next ?? fresh;
  return { shown, waiting: waitingEvents(shown, fresh) };
}
