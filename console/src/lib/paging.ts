import type { Hit } from '../api/discover';

/** Names an event on this page. */
export const hitKey = (hit: Hit): string => `${hit._index}/${hit._id}/${hit._routing ?? ''}`;

const sortKey = (hit: Hit): string => JSON.stringify(hit.sort ?? null);

/**
 * Where the next page begins: after the last hit that has another place in the order than the very last one. Hits of several
 * shards may share a place, and a page may end among them: all of the place are asked for again, and `appended` leaves out
 * those that are known. Null: there is no order to continue.
 */
export function nextPageAfter(hits: readonly Hit[]): unknown[] | null {
  const last = hits.at(-1);
  if (!last?.sort) return null;
  const key = sortKey(last);
  for (let at = hits.length - 2; at >= 0; at -= 1) {
    const hit = hits[at] as Hit;
    if (sortKey(hit) !== key) return hit.sort ?? null;
  }
  return last.sort;
}

/** Hits with those of the next page that are not there yet. */
export function appended(hits: readonly Hit[], page: readonly Hit[]): Hit[] {
  // Only what shares the last place can come again.
  const known = new Set<string>();
  const last = hits.at(-1);
  const key = last && sortKey(last);
  for (let at = hits.length - 1; at >= 0 && sortKey(hits[at] as Hit) === key; at -= 1) known.add(hitKey(hits[at] as Hit));
  return [...hits, ...page.filter((hit) => !known.has(hitKey(hit)))];
}

/** Further down nothing has come since the tail began. */
const FRESH_WITHIN = 2000;

/** Events of the tail before those that were found, each once: what came while both began is in both. */
export function withFresh(fresh: readonly Hit[], hits: Hit[]): Hit[] {
  if (fresh.length === 0) return hits;
  const known = new Set(fresh.map(hitKey));
  return [...fresh, ...hits.slice(0, FRESH_WITHIN).filter((hit) => !known.has(hitKey(hit))), ...hits.slice(FRESH_WITHIN)];
}
