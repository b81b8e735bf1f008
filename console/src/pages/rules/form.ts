import type { RuleDefinition, RuleException, RuleType } from '../../api/detection-rules';
import type { Severity } from '../../api/alerts';

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

export interface ExceptionInput extends QueryInput {
  name: string;
  /** Empty if it has no end. */
  expires: string;
}

/** What a threshold is compared with. */
export type Measure = 'count' | 'distinct' | 'sum';

/** Members of rules over several events. */
export interface WindowInput {
  /** Length of the window of a threshold. */
  window: string;
  measure: Measure;
  /** Field of `distinct` and `sum`. */
  field: string;
  atLeast: number | '';
  /** Time of an absence. */
  after: string;
  learnFor: string;
}

/** Definition as the form edits it. */
export interface RuleInput extends WindowInput {
  type: RuleType;
  enabled: boolean;
  name: string;
  description: string;
  /** How to investigate an alert. */
  note: string;
  query: QueryInput;
  sigma: string;
  /** Null: that of the Sigma rule, or the default. */
  severity: Severity | null;
  /** Empty: by severity. */
  riskScore: number | '';
  tags: string[];
  groupBy: string[];
  channels: string[];
  pipelines: string[];
  tenant: string;
  exceptions: ExceptionInput[];
}

/** Whether the form has the members of a type; other rules are edited as JSON. */
export const hasForm = (type: RuleType) => type !== 'sequence' && type !== 'rate_of_change';

export const EMPTY_QUERY: QueryInput = { text: '', language: 'kuery' };

export const EMPTY_RULE: RuleInput = {
  type: 'query',
  enabled: true,
  name: '',
  description: '',
  note: '',
  query: EMPTY_QUERY,
  sigma: '',
  severity: null,
  riskScore: '',
  tags: [],
  groupBy: [],
  channels: [],
  pipelines: [],
  tenant: '',
  exceptions: [],
  window: '5m',
  measure: 'count',
  field: '',
  atLeast: '',
  after: '10m',
  learnFor: '7d',
};

interface Threshold {
  count?: number;
  distinct?: string;
  sum?: string;
  at_least?: number;
}

function windowInput(definition: RuleDefinition): WindowInput {
  const text = (name: string, otherwise: string) => (typeof definition[name] === 'string' ? definition[name] : otherwise);
  const threshold = (definition.threshold ?? {}) as Threshold;
  const measure = threshold.distinct !== undefined ? 'distinct' : threshold.sum !== undefined ? 'sum' : 'count';
  return {
    window: text('window', EMPTY_RULE.window),
    measure,
    field: threshold.distinct ?? threshold.sum ?? '',
    atLeast: threshold.count ?? threshold.at_least ?? '',
    after: text('after', EMPTY_RULE.after),
    learnFor: text('learn_for', EMPTY_RULE.learnFor),
  };
}

/** Members of a definition that only its type has. */
function windowMembers({ type, window, measure, field, atLeast, after, learnFor }: RuleInput): Record<string, unknown> {
  switch (type) {
    case 'threshold': {
      const threshold = measure === 'count' ? { count: atLeast } : { [measure]: field.trim(), at_least: atLeast };
      return { window: window.trim(), threshold };
    }
    case 'absence':
      return { after: after.trim() };
    case 'new_value':
      return { learn_for: learnFor.trim() };
    default:
      return {};
  }
}

function queryInput({ query = '', language }: Pick<RuleDefinition, 'query' | 'language'>): QueryInput {
  if (typeof query === 'object') return { text: JSON.stringify(query, null, 2), language: 'dsl' };
  return { text: query, language: language === 'lucene' ? 'lucene' : 'kuery' };
}

/** Throws if a query of the query DSL is not valid JSON. */
function queryMembers({ text, language }: QueryInput): Pick<RuleException, 'query' | 'language'> {
  if (language === 'dsl') return { query: JSON.parse(text) as object };
  return { query: text, ...(language === 'lucene' && { language }) };
}

/** Converts a stored definition to the input of the form. */
export function ruleInput(definition: RuleDefinition): RuleInput {
  return {
    ...windowInput(definition),
    type: definition.type,
    enabled: definition.enabled ?? true,
    name: definition.name ?? '',
    description: definition.description ?? '',
    note: definition.note ?? '',
    query: queryInput(definition),
    sigma: definition.sigma ?? '',
    severity: definition.severity ?? null,
    riskScore: definition.risk_score ?? '',
    tags: definition.tags ?? [],
    groupBy: definition.group_by ?? [],
    channels: definition.channels ?? [],
    pipelines: definition.pipelines ?? [],
    tenant: definition.tenant ?? '',
    exceptions: (definition.exceptions ?? []).map((exception) => ({ name: exception.name ?? '', expires: String(exception.expires ?? ''), ...queryInput(exception) })),
  };
}

/**
 * Converts the input of the form to a definition. Members of `stored` that the form does not show stay. Throws if a query
 * of the query DSL is not valid JSON.
 */
export function ruleDefinition(input: RuleInput, stored: RuleDefinition | null): RuleDefinition {
  const made: RuleDefinition = { ...stored, type: input.type };
  for (const name of ['query', 'language', 'sigma', 'window', 'threshold', 'after', 'learn_for']) delete made[name];
  Object.assign(made, input.type === 'sigma' ? { sigma: input.sigma } : queryMembers(input.query), windowMembers(input));
  const set = (name: string, value: unknown, isEmpty: boolean) => {
    if (isEmpty) delete made[name];
    else made[name] = value;
  };
  set('enabled', false, input.enabled);
  set('name', input.name.trim(), input.name.trim() === '');
  set('description', input.description, input.description.trim() === '');
  set('note', input.note, input.note.trim() === '');
  set('severity', input.severity, input.severity === null);
  set('risk_score', input.riskScore, input.riskScore === '');
  // An empty list of tags replaces those of the Sigma rule, so one that is stored stays.
  set('tags', input.tags, input.tags.length === 0 && !stored?.tags);
  set('group_by', input.groupBy, input.groupBy.length === 0);
  set('channels', input.channels, input.channels.length === 0);
  set('pipelines', input.pipelines, input.pipelines.length === 0);
  set('tenant', input.tenant.trim(), input.tenant.trim() === '');
  const exceptions = input.exceptions.map(({ name, expires, ...query }) => ({
    ...(name.trim() && { name: name.trim() }),
    ...queryMembers(query),
    ...(expires.trim() && { expires: expires.trim() }),
  }));
  set('exceptions', exceptions, exceptions.length === 0);
  return made;
}

/** Suggests an id for a name: `Logon as root` becomes `logon-as-root`. */
export function suggestedId(name: string): string {
  return name
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 64);
}

/** Encodes a query for the form's URL. */
export function newRulePath({ text, language }: QueryInput): string {
  return `/rules/new/query?${new URLSearchParams({ q: text, ...(language !== 'kuery' && { l: language }) }).toString()}`;
}

/** Decodes the query of the form's URL. */
export function queryOfUrl(params: URLSearchParams): QueryInput {
  const language = params.get('l');
  return { text: params.get('q') ?? '', language: LANGUAGES.find(({ value }) => value === language)?.value ?? 'kuery' };
}
