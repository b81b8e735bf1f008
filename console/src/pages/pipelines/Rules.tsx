import { Anchor, Group, Paper, Text, Title } from '@mantine/core';
import { Link } from 'react-router';
import { useFormat } from '../../app/preferences';
import { Answer } from '../../components/Answer';
import { useRules, useRuleStats } from '../rules/use-rules';
import { rulesOf } from './rules-of';

const SHOWN = 50;

/** Detection rules that a pipeline evaluates on its events, and those for which its pack has no log source. */
export function Rules({ id }: { id: string }) {
  const format = useFormat();
  const stats = useRuleStats();
  const rules = useRules();
  return (
    <Paper withBorder p="md" bg="var(--firn-surface)">
      <Title order={2} size="h5" mb="xs">
        Rules
      </Title>
      <Answer query={stats} what="Rules">
        {(stats) => {
          const { evaluated, unmapped } = rulesOf(id, stats, rules.data ?? {});
          return (
            <>
              <Text size="sm">
                {evaluated.length === 0 ? 'No detection rule is evaluated on the events of this pipeline.' : `${format.number(evaluated.length)} ${evaluated.length === 1 ? 'rule is' : 'rules are'} evaluated on each event.`}
                {unmapped > 0 && ` For ${format.number(unmapped)} Sigma ${unmapped === 1 ? 'rule' : 'rules'} its pack has no log source.`}
              </Text>
              <Group gap="md" mt="xs" component="ul" aria-label="Rules of the pipeline" style={{ listStyle: 'none', padding: 0 }} m={0}>
                {evaluated.slice(0, SHOWN).map((rule) => (
                  <li key={rule.id}>
                    <Anchor component={Link} to={`/rules/${encodeURIComponent(rule.id)}`} size="sm">
                      {rule.name}
                    </Anchor>
                  </li>
                ))}
              </Group>
              {evaluated.length > SHOWN && (
                <Anchor component={Link} to={`/rules?${new URLSearchParams({ find: id }).toString()}`} size="sm">
                  Show all {format.number(evaluated.length)}
                </Anchor>
              )}
            </>
          );
        }}
      </Answer>
    </Paper>
  );
}
