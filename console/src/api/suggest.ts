import type { Question } from './discover';
import type { ErrorObject } from './errors';
import { request } from './request';

export interface Suggestion {
  kind: 'field' | 'value' | 'operator' | 'conjunction';
  /** Text to insert, quoted and escaped for the query language. */
  text: string;
  label: string;
  detail?: string | number | null;
}

export interface Suggestions {
  /** UTF-16 code units of the query's text. */
  replace: { from: number; to: number };
  items: Suggestion[];
  error: ErrorObject | null;
  /** The timeout ended the lookup early. */
  timed_out?: boolean;
}

/** Timeout of the second attempt, if the default timeout was too short to find any suggestion. */
const PATIENT = '5s';

/**
 * Fetches completions for `cursor`, a UTF-16 offset in the query text. A busy server gets more time until the user
 * types on.
 */
export async function suggest(question: Question, cursor: number, signal: AbortSignal): Promise<Suggestions> {
  const ask = (more: object) => request<Suggestions>('/_firn/discover/suggest', { body: { ...question, ...more, cursor, size: 30 }, signal });
  const quick = await ask({});
  return quick.timed_out && quick.items.length === 0 ? ask({ timeout: PATIENT }) : quick;
}
