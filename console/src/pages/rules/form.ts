import type { Severity } from '../../api/alerts';
import type { RuleDefinition, RuleType } from '../../api/detection-rules';
import { EMPTY_QUERY, LANGUAGES, type QueryInput, queryInput, queryMembers, queryProblem } from './query-form';
import { EMPTY_WINDOW, type Problems, WINDOW_MEMBERS, type WindowInput, windowInput, windowMembers, windowMissing, windowProblems } from './window-form';

export interface ExceptionInput extends QueryInput {
  name: string;
  /** Empty if it has no end. */
  expires: string;
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
  ...EMPTY_WINDOW,
};

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
  // Members of a Sigma correlation are not in the form, so those that are stored stay.
  if (input.type !== 'sigma' || stored?.type !== 'sigma') for (const name of WINDOW_MEMBERS) delete made[name];
  for (const name of ['query', 'language', 'sigma']) delete made[name];
  if (input.type === 'query') delete made.max_keys;
  if (input.type === 'sigma') made.sigma = input.sigma;
  // Each step of a sequence has its query.
  else if (input.type !== 'sequence') Object.assign(made, queryMembers(input.query));
  Object.assign(made, windowMembers(input.type, input));
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

/** Changes the type. The query that was typed becomes the first step of a sequence, and back. */
export function withType(input: RuleInput, type: RuleType): RuleInput {
  const [first, ...others] = input.steps;
  if (type === 'sequence' && first?.text.trim() === '') return { ...input, type, steps: [{ ...first, ...input.query }, ...others] };
  if (input.type === 'sequence' && first && input.query.text.trim() === '') return { ...input, type, query: { text: first.text, language: first.language } };
  return { ...input, type };
}

/** Returns what is wrong with the input, as far as the browser knows. */
export function ruleProblems(input: RuleInput): Problems {
  const query = input.type === 'sigma' || input.type === 'sequence' ? null : queryProblem(input.query);
  const exceptions = input.exceptions.flatMap((exception, at) => {
    const problem = queryProblem(exception);
    return problem ? [[`exception ${at}`, problem]] : [];
  });
  return { ...windowProblems(input.type, input), ...(query && { query }), ...Object.fromEntries(exceptions) };
}

/** Returns the labels of inputs that are empty and have to be filled in. */
export function ruleMissing(input: RuleInput): string[] {
  const needs: [string, string][] = input.type === 'sigma' ? [['Sigma rule', input.sigma]] : [['Name', input.name]];
  if (input.type !== 'sigma' && input.type !== 'sequence') needs.push(['Query', input.query.text]);
  const missing = needs.flatMap(([label, text]) => (text.trim() === '' ? [label] : []));
  const exceptions = input.exceptions.flatMap(({ text }, at) => (text.trim() === '' ? [`Exception ${at + 1}`] : []));
  return [...missing, ...windowMissing(input.type, input, input.groupBy), ...exceptions];
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
