import { isScalar, type Scalar } from '../../lib/json';

/** What a filter asks of an event. */
export type Condition =
  | { op: 'is'; field: string; value: Scalar }
  | { op: 'one_of'; field: string; values: Scalar[] }
  | { op: 'range'; field: string; gte?: Scalar; lte?: Scalar }
  | { op: 'exists'; field: string }
  /** Query DSL as it is. */
  | { op: 'dsl'; dsl: object };

export type Filter = Condition & {
  /** Events that do not fulfil the condition. */
  not?: true;
  /** There, but not asked for. */
  off?: true;
  /** Stays when another search or source is opened. */
  pin?: true;
};

/** As Query DSL, those that are not switched off. */
export function filtersDsl(filters: readonly Filter[]): object[] {
  return filters.filter((filter) => !filter.off).map(filterDsl);
}

export function filterDsl(filter: Filter): object {
  const dsl = conditionDsl(filter);
  return filter.not ? { bool: { must_not: [dsl] } } : dsl;
}

/** `match_phrase` is a term of what is not analysed, and finds whole texts elsewhere: it fits every type of field. */
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

/** Longer values are not in the keyword that a dynamic mapping puts beside a text. */
const KEYWORD_CHARS_MAX = 256;
/** Longer ones do not fit an address, and no event is looked for by them. */
const VALUE_CHARS_MAX = 4096;

/** The condition on the whole value that was clicked: of a text, whose words are what is searched, by the keyword beside it. Otherwise why there is none. */
export function exactCondition(condition: Condition, fields: ReadonlyMap<string, { type: string }>): Condition | string {
  if (condition.op !== 'is' || typeof condition.value !== 'string') return condition;
  const { field, value } = condition;
  if (value.length > VALUE_CHARS_MAX) return 'The value is too long to look for.';
  if (fields.get(field)?.type !== 'text') return condition;
  const keyword = `${field}.keyword`;
  if (value.length <= KEYWORD_CHARS_MAX && fields.get(keyword)?.type === 'keyword') return { ...condition, field: keyword };
  return /[\p{L}\p{N}]/u.test(value) ? condition : `${field} is searched by its words, and this value has none.`;
}

/** What a pill says after its field: `is "x"`, `exists`. */
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

/** The field it is about; of Query DSL none. */
export function fieldOf(filter: Filter): string | null {
  return filter.op === 'dsl' ? null : filter.field;
}

/** Adds a condition, or turns the same one that is there around: it never contradicts itself. */
export function withCondition(filters: readonly Filter[], condition: Condition, not: boolean): Filter[] {
  const words = JSON.stringify(conditionDsl(condition));
  const made: Filter = { ...condition, ...(not && { not: true }) };
  const at = filters.findIndex((filter) => JSON.stringify(conditionDsl(filter)) === words);
  if (at < 0) return [...filters, made];
  return filters.map((filter, index) => (index === at ? { ...made, ...(filter.pin && { pin: true }) } : filter));
}

/** The one at `at` with a flag turned. */
export function toggled(filters: readonly Filter[], at: number, flag: 'not' | 'off' | 'pin'): Filter[] {
  return filters.map((filter, index) => {
    if (index !== at) return filter;
    const { [flag]: was, ...rest } = filter;
    return (was ? rest : { ...rest, [flag]: true }) as Filter;
  });
}

/** Reads what came from an address; null: it is no filter. */
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
