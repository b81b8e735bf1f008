import { useState } from 'react';
import type { Hit } from '../../api/discover';

export interface HeldTail {
  /** Events of the live tail that are shown, newest first. */
  shown: Hit[];
  /** Newer ones that wait. */
  waiting: number;
}

/** What is held: nothing, or the events that were shown when the reader became busy. */
export function heldEvents(held: Hit[] | null, fresh: Hit[], busy: boolean): Hit[] | null {
  if (!busy) return null;
  // A tail that begins anew, or whose events are in the answer now, has none of those that were held.
  if (held === null || (fresh.length === 0 && held.length > 0)) return fresh;
  return held;
}

/** Events of the tail that came after those that are shown. */
export function waitingEvents(shown: readonly Hit[], fresh: readonly Hit[]): number {
  const newest = shown[0];
  const at = newest ? fresh.indexOf(newest) : fresh.length;
  // So many came that those that are shown are no longer kept.
  return at < 0 ? fresh.length : at;
}

/** Keeps new events back while the reader is `busy` with what is on screen: rows do not move then. */
export function useHeldTail(fresh: Hit[], busy: boolean): HeldTail {
  const [held, setHeld] = useState<Hit[] | null>(null);
  const next = heldEvents(held, fresh, busy);
  if (next !== held) setHeld(next);
  const shown = next ?? fresh;
  return { shown, waiting: waitingEvents(shown, fresh) };
}
