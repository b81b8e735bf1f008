import type { Hit, Question } from './discover';
import { request } from './request';

/** How one event is named for good. */
export interface EventName {
  index: string;
  id: string;
  routing?: string | undefined;
}

export const fetchEvent = ({ index, id, routing }: EventName, signal?: AbortSignal) =>
  request<Hit>('/_firn/discover/event', { query: { index, id, routing }, values: true, ...(signal && { signal }) });

/** The events of a source before and after one of them. */
export interface Surrounding {
  anchor: Hit;
  /** Oldest first: the last one came just before the anchor. */
  before: Hit[];
  after: Hit[];
  partial?: boolean;
}

export const fetchSurrounding = (question: Question, anchor: Omit<EventName, 'routing'>, before: number, after: number, signal?: AbortSignal) =>
  request<Surrounding>('/_firn/discover/surrounding', { body: { ...question, anchor, before, after }, values: true, ...(signal && { signal }) });
