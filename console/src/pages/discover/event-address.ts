import type { EventName } from '../../api/events';
import type { Hit } from '../../api/discover';

/** Permanent path of one event, below /app. */
export function eventAddress({ _index: index, _id: id, _routing: routing }: Hit): string {
  return `/discover/event?${new URLSearchParams({ index, id, ...(routing && { routing }) }).toString()}`;
}

/** Parses the event of a URL; null if incomplete. */
export function eventOf(params: URLSearchParams): EventName | null {
  const [index, id, routing] = ['index', 'id', 'routing'].map((name) => params.get(name));
  return index && id ? { index, id, ...(routing && { routing }) } : null;
}
