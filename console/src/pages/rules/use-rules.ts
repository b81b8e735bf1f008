import { useQuery, useQueryClient } from '@tanstack/react-query';
import { searchAlerts } from '../../api/alerts';
import { listChannels } from '../../api/channels';
import { fetchRuleStats, listRules, type RuleDefinition, type RuleSummary } from '../../api/detection-rules';
import { useFormat } from '../../app/preferences';
import { readRuleAlerts, ruleAlertsBody, ruleSummary } from './rows';

const RULES = ['detection-rules'];
/** Thousands of rules are a megabyte, so they are not fetched again at once. */
const RULES_STALE_MS = 60_000;
const ALERTS_REFRESH_MS = 60_000;
const STATS_REFRESH_MS = 30_000;
const CHANNELS_REFRESH_MS = 10_000;

/** All rules by id. */
export const useRules = () => useQuery({ queryKey: RULES, queryFn: ({ signal }) => listRules(signal), staleTime: RULES_STALE_MS });

/** Counts of alerts by the id of the rule. */
export function useRuleAlerts() {
  const { zone } = useFormat();
  return useQuery({ queryKey: ['rule-alerts', zone], queryFn: async ({ signal }) => readRuleAlerts(await searchAlerts(ruleAlertsBody(zone), signal)), refetchInterval: ALERTS_REFRESH_MS });
}

/** Where each rule is evaluated, what it costs and whether it is throttled, by its id. */
export const useRuleStats = () => useQuery({ queryKey: ['rule-stats'], queryFn: ({ signal }) => fetchRuleStats(signal), refetchInterval: STATS_REFRESH_MS });

export const useChannels = () => useQuery({ queryKey: ['channels'], queryFn: ({ signal }) => listChannels(signal), refetchInterval: CHANNELS_REFRESH_MS });

/** Functions that keep the fetched rules in step with changes, without fetching all of them again. */
export function useRuleCache() {
  const client = useQueryClient();
  const change = (changed: (rules: Record<string, RuleSummary>) => Record<string, RuleSummary>) =>
    client.setQueryData<Record<string, RuleSummary>>(RULES, (rules) => rules && changed(rules));
  return {
    stored: (id: string, definition: RuleDefinition) => {
      change((rules) => ({ ...rules, [id]: ruleSummary(id, definition) }));
      client.setQueryData([...RULES, id], definition);
      void client.invalidateQueries({ queryKey: ['rule-stats'] });
    },
    removed: (id: string) => {
      change((rules) => Object.fromEntries(Object.entries(rules).filter(([other]) => other !== id)));
      client.removeQueries({ queryKey: [...RULES, id] });
    },
    imported: () => client.invalidateQueries({ queryKey: RULES }),
  };
}
