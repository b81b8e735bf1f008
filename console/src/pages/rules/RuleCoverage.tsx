import { Button, Group, Paper, Stack, Table, Text, TextInput, Title } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import type { Unevaluated } from '../../api/detection-rules';
import { type RuleCoverage as Coverage, type RuleHole, type RunResult, ruleCoverage, runRule } from '../../api/rule-coverage';
import { useFormat } from '../../app/preferences';
import { Answer } from '../../components/Answer';
import { Failed } from '../../components/Failed';
import { addUnevaluated, unevaluatedText } from './unevaluated';

const HOLES_SHOWN = 50;
/** Requests of one run; each reads some thousand events. */
const REQUESTS_MAX = 20;

/** Alerts of a run over several requests. */
interface Found {
  alerts: number;
  existing: number;
  /** Events were left out. */
  partial: boolean;
  notEvaluated: Unevaluated;
  /** What would be fetched before anything runs, bytes. */
  cost: number | null;
}

/** On which events a rule was evaluated, and the events that it missed. */
export function RuleCoverage({ id, runs }: { id: string; runs: boolean }) {
  const query = useQuery({ queryKey: ['detection-rules', id, 'coverage'], queryFn: ({ signal }) => ruleCoverage(id, signal), refetchInterval: 60_000 });
  return (
    <Paper withBorder p="md" bg="var(--firn-surface)">
      <Title order={2} size="h5" mb="xs">
        Coverage
      </Title>
      <Answer query={query} what="Coverage">
        {(coverage: Coverage) => <Shown id={id} coverage={coverage} runs={runs} />}
      </Answer>
    </Paper>
  );
}

function Shown({ id, coverage, runs }: { id: string; coverage: Coverage; runs: boolean }) {
  const format = useFormat();
  const pipelines = [...new Set(coverage.coverage.filter(({ to }) => !to).map(({ pipeline }) => pipeline))];
  const { holes } = coverage;
  return (
    <Stack gap="sm">
      <Text size="sm">
        {pipelines.length === 0 ? 'No pipeline currently evaluates the rule.' : `Evaluated by ${pipelines.join(', ')}.`}
        {holes.length === 0 && coverage.coverage.length > 0 && ' No event has been missed since then.'}
        {coverage.partial && ' The list is truncated.'}
      </Text>
      {holes.length > 0 && (
        <Table.ScrollContainer minWidth={640}>
          <Table aria-label="Events that were not evaluated">
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Pipeline</Table.Th>
                <Table.Th>Not evaluated from</Table.Th>
                <Table.Th>to</Table.Th>
                <Table.Th />
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {holes.slice(0, HOLES_SHOWN).map((hole) => (
                <Table.Tr key={`${hole.pipeline} ${hole.partition ?? ''} ${hole.from.received} ${hole.from.offset ?? ''}`}>
                  <Table.Td>
                    {hole.pipeline}
                    {hole.partition && (
                      <Text size="xs" c="dimmed">
                        {hole.partition}, offset {hole.from.offset}
                        {hole.to && ` to ${hole.to.offset}`}
                      </Text>
                    )}
                  </Table.Td>
                  <Table.Td>{format.time(Date.parse(hole.from.received))}</Table.Td>
                  <Table.Td>{hole.to ? format.time(Date.parse(hole.to.received)) : 'now'}</Table.Td>
                  <Table.Td>{stateOf(hole)}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
          {holes.length > HOLES_SHOWN && (
            <Text size="sm">
              {format.number(HOLES_SHOWN)} of {format.number(holes.length)}
            </Text>
          )}
        </Table.ScrollContainer>
      )}
      {runs && holes.some(({ filled }) => !filled) && <Fill id={id} holes={holes} />}
    </Stack>
  );
}

function stateOf(hole: RuleHole): string {
  const filled = hole.filled === undefined ? undefined : hole.filled ? 'filled by a run' : 'not filled';
  return [hole.reason, filled, hole.not_filled].filter((part) => part !== undefined).join('; ');
}

/** Runs the rule over the time of all holes. */
function Fill({ id, holes }: { id: string; holes: RuleHole[] }) {
  const format = useFormat();
  const client = useQueryClient();
  const [index, setIndex] = useState('*');
  const { mutate, isPending, data, error } = useMutation({
    mutationFn: (fetch: boolean) => run(id, index.trim(), holes, fetch),
    onSuccess: () => client.invalidateQueries({ queryKey: ['detection-rules', id, 'coverage'] }),
  });
  return (
    <Stack gap="xs">
      <Group align="flex-end">
        <TextInput label="Index of the events" w={260} value={index} onChange={(event) => setIndex(event.currentTarget.value)} />
        <Button variant="default" size="sm" loading={isPending} disabled={index.trim() === ''} onClick={() => mutate(false)}>
          Run on missed events
        </Button>
      </Group>
      {data && data.cost !== null && (
        <Group gap="sm" role="status">
          <Text size="sm">The run would fetch {format.bytes(data.cost)} from snapshot repositories.</Text>
          <Button size="xs" variant="default" onClick={() => mutate(true)}>
            Run anyway
          </Button>
        </Group>
      )}
      {data && data.cost === null && (
        <Text size="sm" role="status">
          <b>{format.number(data.alerts)}</b> new {data.alerts === 1 ? 'alert' : 'alerts'}; {format.number(data.existing)} matching {data.existing === 1 ? 'event has' : 'events have'} an alert already
          {unevaluatedText(data.notEvaluated, format.number)}
          {data.partial && '; not all events were read, so there may be more'}
        </Text>
      )}
      {error && <Failed title="Rule not run" error={error} compact />}
    </Stack>
  );
}

async function run(id: string, index: string, holes: RuleHole[], fetch: boolean): Promise<Found> {
  const open = holes.filter(({ filled }) => !filled);
  // Times of the same form, so texts compare as times.
  const first = open.map(({ from }) => from.received).sort()[0] ?? '';
  const ends = open.map(({ to }) => to?.received).sort();
  const to = ends.includes(undefined) ? 'now' : (ends.at(-1) ?? 'now');
  const found: Found = { alerts: 0, existing: 0, partial: false, notEvaluated: { events: 0, reasons: [] }, cost: null };
  let from = first;
  for (let request = 0; request < REQUESTS_MAX; request++) {
    const result: RunResult = await runRule(id, { index, from, to, ...(fetch && { fetch }) });
    if (!result.ran) return { ...found, cost: result.cost?.bytes ?? 0 };
    found.alerts += result.alerts ?? 0;
    found.existing += result.existing ?? 0;
    found.partial ||= result.partial ?? false;
    found.notEvaluated = addUnevaluated(found.notEvaluated, result.not_evaluated);
    if (result.complete || !result.continue_from || result.continue_from === from) {
      found.partial ||= !result.complete;
      return found;
    }
    from = result.continue_from;
  }
  return { ...found, partial: true };
}
