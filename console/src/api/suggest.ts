import type { Question } from './discover';
import type { ErrorObject } from './errors';
import { request } from './request';

export interface Suggestion {
  kind: 'field' | 'value' | 'operator' | 'conjunction';
  /** What is put in, quoted and escaped as the language asks. */
  text: string;
  label: string;
  detail?: string | number | null;
}

export interface Suggestions {
  /** UTF-16 code units of the query's text. */
  replace: { from: number; to: number };
  items: Suggestion[];
  error: ErrorObject | null;
  /** There was no time to look for more. */
  partial?: boolean;
}

/** What may stand at `cursor`, a UTF-16 offset in the question's text. */
export const suggest = (question: Question, cursor: number, signal: AbortSignal) =>
  request<Suggestions>('/_firn/discover/suggest', { body: { ...question, cursor, size: 30 }, signal });
