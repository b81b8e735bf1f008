import type { Hit } from '../api/discover';

/** Unique key of an event on this page. */
export const hitKey = (hit: Hit): string => `${hit._index}/${hit._id}/${hit._routing ?? ''}`;

const sortKey = (hit: Hit): string => JSON.stringify(hit.sort ?? null);

/**
 * Returns `search_after` of the next page: the sort values of the last hit that differ from those of the final hit. Hits of
 * several shards may have equal sort values, and a page may end among them: the next page requests all of these again,
 * and `appended` drops the known ones. Null if the hits have no sort values.
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

/** Appends the hits of the next page that are new. */
export function appended(hits: readonly Hit[], page: readonly Hit[]): Hit[] {
  // Only hits with the last sort values can repeat.
  const known = new Set<string>();
  const last = hits.at(-1);
  const key = last && sortKey(last);
  for (let at = hits.length - 1; at >= 0 && sortKey(hits[at] as Hit) === key; at -= 1) known.add(hitKey(hits[at] as Hit));
  return [...hits, ...page.filter((hit) => !known.has(hitKey(hit)))];
}

/** Live events can only repeat hits above this position. */
const FRESH_WITHIN = 2000;

/** Puts events of the live tail before the hits, each once: events that arrived while both started are in both. */
export function withFresh(fresh: readonly Hit[], hits: Hit[]): Hit[] {
  if (fresh.length === 0) return hits;
  const known = new Set(fresh.map(hitKey));
  return [...fresh, ...hits.slice(0, FRESH_WITHIN).filter((hit) => !known.has(hitKey(hit))), ...hits.slice(FRESH_WITHIN)];
}
