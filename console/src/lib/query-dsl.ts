import type { WholeNumber } from './json';

/** A query as people type it, as Query DSL; null: it asks for everything. */
export function queryDsl(text: string, language: 'kql' | 'lucene', zone: string): object | null {
  if (text.trim() === '') return null;
  return language === 'kql' ? { kql: { query: text, time_zone: zone } } : { query_string: { query: text, analyze_wildcard: true, time_zone: zone } };
}

/** Words of KQL that mean something by themselves. */
const KQL_WORDS = /^(and|or|not)$/i;

/** `field: "value"`, whatever the two hold. */
export function kqlIs(field: string, value: string | number | WholeNumber): string {
  const name = KQL_WORDS.test(field) ? `\\${field}` : field.replace(/[\\():<>"*{}\s]/g, (found) => `\\${found}`);
  return `${name}: ${typeof value !== 'string' ? value : `"${value.replace(/[\\"]/g, '\\$&')}"`}`;
}

/** Both have to be true; a query that is an "or" stays one. */
export function kqlAnd(text: string, more: string): string {
  if (text.trim() === '') return more;
  if (more.trim() === '') return text;
  return `${asOne(text)} and ${asOne(more)}`;
}

const asOne = (text: string) => (/\bor\b/i.test(text) ? `(${text})` : text);
