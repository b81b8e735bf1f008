import type { Question } from './discover';
import { request } from './request';

/** Field of a source, merged from all of its indices. */
export interface Field {
  name: string;
  type: string;
  searchable: boolean;
  aggregatable: boolean;
  /** Indices by type, if they disagree. */
  conflict?: Record<string, string[]>;
  /** Whether some event in the requested time range may have a value. */
  in_use: boolean;
}

export interface Fields {
  fields: Field[];
  time_field: string | null;
  time_fields: string[];
  /** Shown first in the summary of an event. */
  columns: string[];
  /** Default field of the histogram breakdown. */
  split_by: string | null;
  /** The list is incomplete. */
  truncated: boolean;
}

export const fetchFields = (question: Pick<Question, 'index' | 'time'>, signal?: AbortSignal) =>
  request<Fields>('/_firn/discover/fields', { body: question, ...(signal && { signal }) });
