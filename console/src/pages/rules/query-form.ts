import type { RuleDefinition, RuleException } from '../../api/detection-rules';

export type QueryLanguage = 'kuery' | 'lucene' | 'dsl';

export const LANGUAGES: { value: QueryLanguage; label: string }[] = [
  { value: 'kuery', label: 'KQL' },
  { value: 'lucene', label: 'Lucene' },
  { value: 'dsl', label: 'Query DSL' },
];

export interface QueryInput {
  text: string;
  language: QueryLanguage;
}

export const EMPTY_QUERY: QueryInput = { text: '', language: 'kuery' };

/** Converts the members of a definition to the input of the form. */
export function queryInput({ query = '', language }: Pick<RuleDefinition, 'query' | 'language'>): QueryInput {
  if (typeof query === 'object') return { text: JSON.stringify(query, null, 2), language: 'dsl' };
  return { text: query, language: language === 'lucene' ? 'lucene' : 'kuery' };
}

/** Converts the input of the form to members of a definition. Throws if a query of the query DSL is not valid JSON. */
export function queryMembers({ text, language }: QueryInput): Pick<RuleException, 'query' | 'language'> {
  if (language === 'dsl') return { query: JSON.parse(text) as object };
  return { query: text, ...(language === 'lucene' && { language }) };
}

/** Returns why a query of the query DSL is not JSON; null if it is, if it is empty, and for other languages. */
export function queryProblem({ text, language }: QueryInput): string | null {
  if (language !== 'dsl' || text.trim() === '') return null;
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}
