import type { RuleEvaluation, RuleSummary } from '../../api/detection-rules';

/** Returns the rules that a pipeline evaluates, by name, and the number of those for which its pack has no log source. */
export function rulesOf(pipeline: string, stats: Record<string, RuleEvaluation>, rules: Record<string, RuleSummary>) {
  const all = Object.entries(stats);
  const evaluated = all.filter(([, { evaluated_by: by }]) => by.includes(pipeline)).map(([id]) => ({ id, name: rules[id]?.name ?? id }));
  return {
    evaluated: evaluated.sort((left, right) => left.name.localeCompare(right.name)),
    unmapped: all.filter(([, { unmapped_in: of }]) => of.includes(pipeline)).length,
  };
}
