import type { Question } from './discover';
import { request } from './request';

/** A field of a source, of all its indices together. */
export interface Field {
  name: string;
  type: string;
  searchable: boolean;
  aggregatable: boolean;
  /** Indices by type, where they disagree. */
  conflict?: Record<string, string[]>;
  /** Some event of the time asked for may have a value. */
  in_use: boolean;
}

export interface Fields {
  fields: Field[];
  time_field: string | null;
  time_fields: string[];
  /** Shown first in the summary of an event. */
  columns: string[];
  /** What the histogram is split by unless the reader chooses. */
  split_by: string | null;
  /** There are more. */
  truncated: boolean;
}

export const fetchFields = (question: Pick<Question, 'index' | 'time'>, signal?: AbortSignal) =>
  request<Fields>('/_firn/discover/fields', { body: question, ...(signal && { signal }) });
