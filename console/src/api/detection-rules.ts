import type { Severity } from './alerts';
import { request } from './request';

/** Events that raise no alert. */
export interface RuleException {
  name?: string;
  query: string | object;
  language?: 'kuery' | 'lucene';
}

export type RuleType = 'query' | 'sigma' | 'threshold' | 'absence' | 'new_value';

/** Definition of a detection rule, as it was stored. */
export interface RuleDefinition {
  type: RuleType;
  /** Text, or an object of the query DSL. */
  query?: string | object;
  language?: 'kuery' | 'kql' | 'lucene';
  /** Sigma rule, one document of YAML. */
  sigma?: string;
  name?: string;
  description?: string;
  severity?: Severity;
  risk_score?: number;
  tags?: string[];
  references?: string[];
  false_positives?: string[];
  author?: string;
  enabled?: boolean;
  exceptions?: RuleException[];
  tenant?: string;
  pipelines?: string[];
  group_by?: string[];
  channels?: string[];
  [member: string]: unknown;
}

export interface RefusedRule {
  id: string;
  title: string;
  reason: string;
}

export interface ImportResult {
  imported: string[];
  refused: RefusedRule[];
}

export interface ImportOptions {
  enabled: boolean;
  /** Empty: all tenants. */
  tenant: string;
  channels: string[];
}

const pathOf = (id: string) => `/_firn/rules/${encodeURIComponent(id)}`;

/** Lists the definitions of all rules by id. Thousands of rules are megabytes. */
export const listRules = (signal?: AbortSignal) => request<Record<string, RuleDefinition>>('/_firn/rules', signal ? { signal } : {});

/** Fetches one rule; fails with 404 if it is missing. */
export const fetchRule = async (id: string, signal?: AbortSignal): Promise<RuleDefinition> => {
  const found = (await request<Record<string, RuleDefinition>>(pathOf(id), signal ? { signal } : {}))[id];
  if (!found) throw new Error(`detection rule [${id}] is missing in the response`);
  return found;
};

/** Creates or replaces a rule. The server compiles it first. */
export const putRule = (id: string, definition: RuleDefinition) => request<unknown>(pathOf(id), { method: 'PUT', body: definition });

export const deleteRule = (id: string) => request<unknown>(pathOf(id), { method: 'DELETE' });

/** Imports a YAML text with any number of Sigma rules. */
export const importRules = (yaml: string, { enabled, tenant, channels }: ImportOptions) =>
  request<ImportResult>('/_firn/rules/_import', {
    text: { type: 'application/yaml', content: yaml },
    query: { enabled, tenant: tenant || undefined, channels: channels.length > 0 ? channels.join(',') : undefined },
  });

/** What a rule would have found in stored events. */
export interface HistoryResult {
  /** False: it would fetch so much from snapshot repositories that it has to be confirmed. */
  ran: boolean;
  cost?: { bytes: number };
  events?: number;
  alerts?: number;
  /** The answer does not cover all. */
  partial?: boolean;
}

/** Tests a rule on the stored events of an index since a time such as `now-30d`. */
export const testRule = (rule: RuleDefinition, index: string, from: string, fetch: boolean) =>
  request<HistoryResult>('/_firn/rules/_test', { method: 'POST', body: { rule, index, from, examples: 0, ...(fetch && { fetch }) } });
