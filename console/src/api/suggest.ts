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
  timed_out?: boolean;
}

/** How long it is looked for suggestions where the time that a typist does not notice was too short for any. */
const PATIENT = '5s';

/** What may stand at `cursor`, a UTF-16 offset in the question's text. A server that is busy is given more time, as long as nobody types on. */
export async function suggest(question: Question, cursor: number, signal: AbortSignal): Promise<Suggestions> {
  const ask = (more: object) => request<Suggestions>('/_firn/discover/suggest', { body: { ...question, ...more, cursor, size: 30 }, signal });
  const quick = await ask({});
  return quick.timed_out && quick.items.length === 0 ? ask({ timeout: PATIENT }) : quick;
}
