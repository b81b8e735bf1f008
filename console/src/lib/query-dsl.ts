import type { WholeNumber } from './json';

/** Converts a typed query to Query DSL; null for an empty query, which matches everything. */
export function queryDsl(text: string, language: 'kql' | 'lucene', zone: string): object | null {
  if (text.trim() === '') return null;
  return language === 'kql' ? { kql: { query: text, time_zone: zone } } : { query_string: { query: text, analyze_wildcard: true, time_zone: zone } };
}

/** Reserved words of KQL. */
const KQL_WORDS = /^(and|or|not)$/i;

/** Returns `field: "value"`, with both escaped. */
export function kqlIs(field: string, value: string | number | WholeNumber): string {
  const name = KQL_WORDS.test(field) ? `\\${field}` : field.replace(/[\\():<>"*{}\s]/g, (found) => `\\${found}`);
  return `${name}: ${typeof value !== 'string' ? value : `"${value.replace(/[\\"]/g, '\\$&')}"`}`;
}

/** Combines two queries with `and`; a query that contains "or" is put in parentheses. */
export function kqlAnd(text: string, more: string): string {
  if (text.trim() === '') return more;
  if (more.trim() === '') return text;
  return `${asOne(text)} and ${asOne(more)}`;
}

const asOne = (text: string) => (/\bor\b/i.test(text) ? `(${text})` : text);
