import { newRulePath } from '../rules/form';
import { filtersDsl } from './filters';
import { decodeState } from './state';

/**
 * Returns the path of the form that creates a rule from a search; null if the search selects nothing: it has neither a
 * query nor a filter, or its query is not valid JSON. Filters make it a query of the query DSL.
 */
export function rulePathOfSearch(search: string): string | null {
  const { text, language, filters } = decodeState(search).state;
  const conditions = filtersDsl(filters);
  if (conditions.length === 0) return text.trim() === '' ? null : newRulePath({ text, language: language === 'kql' ? 'kuery' : language });
  try {
    const query = text.trim() === '' ? [] : [language === 'dsl' ? (JSON.parse(text) as object) : language === 'kql' ? { kql: { query: text } } : { query_string: { query: text } }];
    return newRulePath({ text: JSON.stringify({ bool: { filter: [...query, ...conditions] } }, null, 2), language: 'dsl' });
  } catch {
    return null;
  }
}
