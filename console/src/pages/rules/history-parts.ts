import type { RuleDefinition } from '../../api/detection-rules';
import { ruleDefinition, type RuleInput } from './form';

/** Search that tests a rule, or a part of it, on stored events. */
export interface HistoryPart {
  /** Null: the rule has only this part. */
  label: string | null;
  /** Whether the result is the number of alerts, or only that of the events that match. */
  countsAlerts: boolean;
  rule: RuleDefinition;
}

/**
 * Returns the searches that test a rule. The server counts the alerts of queries, Sigma rules and thresholds; of the other types, the
 * events of each query are counted.
 */
export function historyParts(input: RuleInput): HistoryPart[] {
  if (input.type === 'sigma') return [{ label: null, countsAlerts: true, rule: ruleDefinition(input, null) }];
  const named = { ...input, name: input.name.trim() || 'Test' };
  if (input.type === 'query' || input.type === 'threshold') return [{ label: null, countsAlerts: true, rule: ruleDefinition(named, null) }];
  const isSequence = input.type === 'sequence';
  const queries = isSequence ? input.steps : [{ ...input.query, name: '' }];
  return queries.map(({ name, text, language }, at) => ({
    label: isSequence ? `Step ${at + 1}${name.trim() && ` (${name.trim()})`}` : null,
    countsAlerts: false,
    rule: ruleDefinition({ ...named, type: 'query', groupBy: [], query: { text, language } }, null),
  }));
}
