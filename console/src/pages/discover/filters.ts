import { isScalar, type Scalar } from '../../lib/json';

/** Condition of a filter. */
export type Condition =
  | { op: 'is'; field: string; value: Scalar }
  | { op: 'one_of'; field: string; values: Scalar[] }
  | { op: 'range'; field: string; gte?: Scalar; lte?: Scalar }
  | { op: 'exists'; field: string }
  /** Raw Query DSL. */
  | { op: 'dsl'; dsl: object };

export type Filter = Condition & {
  /** Negated. */
  not?: true;
  /** Disabled. */
  off?: true;
  /** Pinned: stays when another search or source is opened. */
  pin?: true;
};

/** Converts the enabled filters to Query DSL. */
export function filtersDsl(filters: readonly Filter[]): object[] {
  return filters.filter((filter) => !filter.off).map(filterDsl);
}

export function filterDsl(filter: Filter): object {
  const dsl = conditionDsl(filter);
  return filter.not ? { bool: { must_not: [dsl] } } : dsl;
}

/**
 * `match_phrase` is a term query on fields that are not analyzed and a phrase query on text: it fits every field type.
 */
function conditionDsl(condition: Condition): object {
  switch (condition.op) {
    case 'is':
      return { match_phrase: { [condition.field]: condition.value } };
    case 'one_of':
      return { bool: { should: condition.values.map((value) => ({ match_phrase: { [condition.field]: value } })), minimum_should_match: 1 } };
    case 'range': {
      const { field, gte, lte } = condition;
      return { range: { [field]: { ...(gte !== undefined && { gte }), ...(lte !== undefined && { lte }) } } };
    }
    case 'exists':
      return { exists: { field: condition.field } };
    case 'dsl':
      return condition.dsl;
  }
}

/** `ignore_above` of the keyword sub-field that dynamic mappings add to a text. */
const KEYWORD_CHARS_MAX = 256;
/** Longer values do not fit in a URL. */
const VALUE_CHARS_MAX = 4096;

/**
 * Returns the condition that matches a clicked value as a whole, for a text by its keyword sub-field; or the reason why
 * there is none.
 */
export function exactCondition(condition: Condition, fields: ReadonlyMap<string, { type: string }>): Condition | string {
  if (condition.op !== 'is' || typeof condition.value !== 'string') return condition;
  const { field, value } = condition;
  if (value.length > VALUE_CHARS_MAX) return 'The value is too long to search for.';
  if (fields.get(field)?.type !== 'text') return condition;
  const keyword = `${field}.keyword`;
  if (value.length <= KEYWORD_CHARS_MAX && fields.get(keyword)?.type === 'keyword') return { ...condition, field: keyword };
  return /[\p{L}\p{N}]/u.test(value) ? condition : `${field} is a full-text field, and this value contains no searchable words.`;
}

/** Text of a pill after its field: `is x`, `exists`. */
export function describeCondition(filter: Filter): string {
  const not = filter.not;
  switch (filter.op) {
    case 'is':
      return `${not ? 'is not' : 'is'} ${shown(filter.value)}`;
    case 'one_of':
      return `${not ? 'is none of' : 'is one of'} ${filter.values.map(shown).join(', ')}`;
    case 'range': {
      const range = filter.gte === undefined ? `at most ${shown(filter.lte ?? '')}` : filter.lte === undefined ? `at least ${shown(filter.gte)}` : `between ${shown(filter.gte)} and ${shown(filter.lte)}`;
      return `${not ? 'is not' : 'is'} ${range}`;
    }
    case 'exists':
      return not ? 'does not exist' : 'exists';
    case 'dsl':
      return `${not ? 'NOT ' : ''}${JSON.stringify(filter.dsl)}`;
  }
}

function shown(value: Scalar): string {
  return value === '' ? '(empty)' : String(value);
}

/** Field of a filter; null for Query DSL. */
export function fieldOf(filter: Filter): string | null {
  return filter.op === 'dsl' ? null : filter.field;
}

/** Adds a filter, or replaces an equal one with the opposite `not`, so that filters never contradict each other. */
export function withCondition(filters: readonly Filter[], condition: Condition, not: boolean): Filter[] {
  const words = JSON.stringify(conditionDsl(condition));
  const made: Filter = { ...condition, ...(not && { not: true }) };
  const at = filters.findIndex((filter) => JSON.stringify(conditionDsl(filter)) === words);
  if (at < 0) return [...filters, made];
  return filters.map((filter, index) => (index === at ? { ...made, ...(filter.pin && { pin: true }) } : filter));
}

/** Toggles a flag of the filter at `at`. */
export function toggled(filters: readonly Filter[], at: number, flag: 'not' | 'off' | 'pin'): Filter[] {
  return filters.map((filter, index) => {
    if (index !== at) return filter;
    const { [flag]: was, ...rest } = filter;
    return (was ? rest : { ...rest, [flag]: true }) as Filter;
  });
}

/** Parses a filter of the URL; null if invalid. */
export function readFilter(value: unknown): Filter | null {
  if (typeof value !== 'object' || value === null) return null;
  const { op, field, not, off, pin, ...rest } = value as Record<string, unknown>;
  const flags = { ...(not === true && { not }), ...(off === true && { off }), ...(pin === true && { pin }) } as Pick<Filter, 'not' | 'off' | 'pin'>;
  if (op === 'dsl') return typeof rest['dsl'] === 'object' && rest['dsl'] !== null && !Array.isArray(rest['dsl']) ? { op, dsl: rest['dsl'], ...flags } : null;
  if (typeof field !== 'string' || field === '') return null;
  if (op === 'exists') return { op, field, ...flags };
  if (op === 'is') return isScalar(rest['value']) ? { op, field, value: rest['value'], ...flags } : null;
  if (op === 'one_of') {
    const values = rest['values'];
    return Array.isArray(values) && values.length > 0 && values.every(isScalar) ? { op, field, values, ...flags } : null;
  }
  if (op === 'range') {
    const { gte, lte } = rest;
    if ((gte === undefined && lte === undefined) || [gte, lte].some((end) => end !== undefined && !isScalar(end))) return null;
    return { op, field, ...(gte !== undefined && { gte: gte as Scalar }), ...(lte !== undefined && { lte: lte as Scalar }), ...flags };
  }
  return null;
}
