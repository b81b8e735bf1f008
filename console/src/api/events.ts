import type { Hit, Question } from './discover';
import { request } from './request';

/** Permanent identifier of one event. */
export interface EventName {
  index: string;
  id: string;
  routing?: string | undefined;
}

export const fetchEvent = ({ index, id, routing }: EventName, signal?: AbortSignal) =>
  request<Hit>('/_firn/discover/event', { query: { index, id, routing }, values: true, ...(signal && { signal }) });

/** Events of a source before and after one event. */
export interface Surrounding {
  anchor: Hit;
  /** Oldest first: the last one directly precedes the anchor. */
  before: Hit[];
  after: Hit[];
  partial?: boolean;
}

export const fetchSurrounding = (question: Question, anchor: Omit<EventName, 'routing'>, before: number, after: number, signal?: AbortSignal) =>
  request<Surrounding>('/_firn/discover/surrounding', { body: { ...question, anchor, before, after }, values: true, ...(signal && { signal }) });
