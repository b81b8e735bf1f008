import type { Severity } from './alerts';
import { request, send } from './request';

/** Events that raise no alert. */
export interface RuleException {
  name?: string;
  query: string | object;
  language?: 'kuery' | 'lucene';
  /** Date from which on the exception holds no longer. */
  expires?: string | number;
}

export type RuleType = 'query' | 'sigma' | 'threshold' | 'sequence' | 'rate_of_change' | 'absence' | 'new_value';

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
  /** How to investigate an alert. */
  note?: string;
  enabled?: boolean;
  exceptions?: RuleException[];
  tenant?: string;
  pipelines?: string[];
  group_by?: string[];
  channels?: string[];
  [member: string]: unknown;
}

/** What a list shows of a rule. */
export interface RuleSummary {
  type: RuleType;
  name: string;
  severity: Severity;
  enabled: boolean;
  tags: string[];
  tenant?: string;
  channels?: string[];
}

/** Where a rule is evaluated. */
export interface RuleEvaluation {
  enabled: boolean;
  /** Ids of running pipelines. */
  evaluated_by: string[];
  /** Ids of running pipelines whose packs have no log source for it. */
  unmapped_in: string[];
  /** Why the stored definition cannot be used. */
  error: string | null;
}

/** Where a rule is evaluated, and what it costs. */
export interface RuleStats extends RuleEvaluation {
  cpu: {
    /** Percentage of one core in the window of the budget. */
    core_percent: number;
  };
  /** Null: it is within the budget. */
  throttled: { reason: string; until: string; evaluated: boolean } | null;
  /** Partitions whose events are not evaluated now, although they were. Null: not known. */
  open_holes: OpenHoles | null;
}

export interface OpenHoles {
  count: number;
  /** When the first one began. */
  since?: string;
  pipelines?: string[];
}

/** Part of an imported text. */
interface ImportedPart {
  /** Line of the text where it starts, from 1. */
  line: number;
  id: string;
  name: string;
}

export interface RefusedRule extends ImportedPart {
  reason: string;
}

/** What a rule says and firn does not take over; also a part of a text that is no rule. */
export interface NotTakenRule extends ImportedPart {
  members: { member: string; reason: string }[];
}

export interface ImportResult {
  imported: string[];
  refused: RefusedRule[];
  not_taken: NotTakenRule[];
  /** Members that firn takes over in another way, so that nothing is lost. */
  notes: NotTakenRule[];
}

export interface ImportOptions {
  /** Null: as the text has it. */
  enabled: boolean | null;
  /** Replace existing rules; otherwise they are refused. */
  overwrite: boolean;
  /** Empty: all tenants. */
  tenant: string;
  channels: string[];
}

const pathOf = (id: string) => `/_firn/rules/${encodeURIComponent(id)}`;

/** Lists all rules by id. */
export const listRules = (signal?: AbortSignal) => request<Record<string, RuleSummary>>('/_firn/rules', { query: { short: true }, ...(signal && { signal }) });

/** Tells of all rules where they are evaluated and what they cost, by id. */
export const fetchRuleStats = (signal?: AbortSignal) => request<Record<string, RuleStats>>('/_firn/rules/_stats', signal ? { signal } : {});

/** Fetches one rule; fails with 404 if it is missing. */
export const fetchRule = async (id: string, signal?: AbortSignal): Promise<RuleDefinition> => {
  const found = (await request<Record<string, RuleDefinition>>(pathOf(id), signal ? { signal } : {}))[id];
  if (!found) throw new Error(`detection rule [${id}] is missing in the response`);
  return found;
};

/** Creates or replaces a rule. The server compiles it first. */
export const putRule = (id: string, definition: RuleDefinition) => request<unknown>(pathOf(id), { method: 'PUT', body: definition });

export const deleteRule = (id: string) => request<unknown>(pathOf(id), { method: 'DELETE' });

/** Imports a text: Sigma rules in YAML, or rules of Kibana or firn in NDJSON. */
export const importRules = (text: { type: string; content: string }, { enabled, overwrite, tenant, channels }: ImportOptions) =>
  request<ImportResult>('/_firn/rules/_import', {
    text: { type: text.type, content: text.content },
    query: { enabled: enabled ?? undefined, overwrite, tenant: tenant || undefined, channels: channels.length > 0 ? channels.join(',') : undefined },
  });

/** Fetches all rules as a text that can be imported. */
export const exportRules = async (): Promise<Blob> => (await send('/_firn/rules/_export', { headers: { accept: '*/*' } })).blob();

/** Whether a definition can be stored. Nothing is stored. */
export const validateRule = (rule: RuleDefinition, signal?: AbortSignal) =>
  request<{ valid: boolean; error?: string }>('/_firn/rules/_validate', { method: 'POST', body: { rule }, ...(signal && { signal }) });

/** What a rule would have found in stored events. */
export interface HistoryResult {
  /** False: it would fetch so much from snapshot repositories that it has to be confirmed. */
  ran: boolean;
  cost?: { bytes: number };
  events?: number;
  alerts?: number;
  /** The answer does not cover all. */
  partial?: boolean;
  /** Of a Sigma rule: number of the newest events that were read, and those on which the rule could not be evaluated. */
  read?: number;
  not_evaluated?: Unevaluated;
}

/** Events on which a rule was not evaluated. */
export interface Unevaluated {
  events: number;
  reasons: { reason: string; events: number }[];
}

/** Tests a rule on the stored events of an index since a time such as `now-30d`. */
export const testRule = (rule: RuleDefinition, index: string, from: string, fetch: boolean) =>
  request<HistoryResult>('/_firn/rules/_test', { method: 'POST', body: { rule, index, from, examples: 0, ...(fetch && { fetch }) } });
