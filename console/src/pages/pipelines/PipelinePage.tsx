import { Alert, Button, Group, Paper, Stack, Table, Text, Title } from '@mantine/core';
import { IconAlertTriangle } from '@tabler/icons-react';
import { useState } from 'react';
import { useNavigate, useParams } from 'react-router';
import { deletePipeline, type Pipeline, sourceCounters, sourceError } from '../../api/event-pipelines';
import { useFormat } from '../../app/preferences';
import { Answer } from '../../components/Answer';
import { Confirm } from '../../components/Confirm';
import { CopyBlock } from '../../components/CopyBlock';
import { Empty } from '../../components/Empty';
import { Figure } from '../../components/Figure';
import { PageFrame } from '../../components/PageFrame';
import { DeadLetters } from './DeadLetters';
import { MappingCoverage } from './MappingCoverage';
import { Rules } from './Rules';
import { Simulator } from './Simulator';
import { State } from './State';
import { Tables } from './Tables';
import { usePipelines } from './use-pipelines';
import { Windows } from './Windows';

/** One pipeline: account, steps, positions, dead letters, simulator, definition. */
export function PipelinePage() {
  const { id = '' } = useParams();
  const navigate = useNavigate();
  const { query, rate } = usePipelines();
  const [deleting, setDeleting] = useState(false);
  return (
    <PageFrame
      title={id}
      within={{ list: 'Pipelines', to: '/pipelines', name: id }}
      actions={
        <Button size="xs" variant="default" c="red" onClick={() => setDeleting(true)}>
          Delete
        </Button>
      }
    >
      <Answer query={query} what="Pipeline">
        {(pipelines) => {
          const pipeline = pipelines.find((candidate) => candidate.id === id);
          if (!pipeline) return <Empty title="Pipeline not found">It was deleted or never existed.</Empty>;
          return (
            <Stack>
              <Account pipeline={pipeline} rate={rate(id)} />
              <Partitions pipeline={pipeline} />
              <Tables tables={pipeline.stats?.tables ?? []} />
              {pipeline.stats?.windows && <Windows windows={pipeline.stats.windows} />}
              {pipeline.stats?.running && <Rules id={id} />}
              {pipeline.definition.pack && pipeline.stats?.running && <MappingCoverage id={id} />}
              <DeadLetters id={id} index={pipeline.definition.dead_letter_index ?? 'dead-letters'} />
              <Simulator id={id} />
              <Paper withBorder p="md" bg="var(--firn-surface)">
                <Title order={2} size="h5" mb="xs">
                  Definition
                </Title>
                <CopyBlock label="definition" text={JSON.stringify(pipeline.definition, null, 2)} />
              </Paper>
            </Stack>
          );
        }}
      </Answer>
      {deleting && (
        <Confirm
          title="Delete pipeline"
          action="Delete pipeline"
          onConfirm={async () => {
            await deletePipeline(id);
            await navigate('/pipelines');
          }}
          onClose={() => setDeleting(false)}
        >
          firn no longer reads the source. Stored events and the positions are retained: a new pipeline with this name continues there.
        </Confirm>
      )}
    </PageFrame>
  );
}

/** Counts since the start of the server: read is the sum of the others. */
function Account({ pipeline, rate }: { pipeline: Pipeline; rate: number | null }) {
  const format = useFormat();
  const { stats } = pipeline;
  if (!stats) return <State pipeline={pipeline} />;
  const events = stats.since_start;
  const perEvent = (ms: number) => (events.read > 0 ? `${format.number(Math.round((ms * 1000) / events.read))} µs per event` : 'no events yet');
  const counters = sourceCounters(stats);
  const unread = sourceError(stats);
  return (
    <Stack gap="sm">
      <Group>
        <State pipeline={pipeline} />
        {pipeline.definition.description && <Text size="sm">{pipeline.definition.description}</Text>}
      </Group>
      {stats.error !== null && (
        <Alert color="red" icon={<IconAlertTriangle aria-hidden />} title="The pipeline is retrying">
          {stats.error}
        </Alert>
      )}
      {unread !== null && (
        <Alert color="yellow" icon={<IconAlertTriangle aria-hidden />} title="A part of the source cannot be read">
          {unread}
        </Alert>
      )}
      <Group gap="sm" align="stretch">
        <Figure label="Read" value={format.number(events.read)} detail={rate === null ? format.bytes(events.read_bytes) : `${format.number(Math.round(rate))} events/s`} />
        <Figure label="Indexed" value={format.number(events.indexed)} />
        <Figure label="Filtered" value={format.number(events.filtered)} />
        <Figure label="Dead letters" value={format.number(events.dead_lettered)} />
        <Figure label="Refused" value={format.number(events.refused)} detail="returned to senders" />
        <Figure label="In flight" value={format.number(events.in_flight)} />
        <Figure label="Map" value={format.duration(stats.steps.map_time_in_millis)} detail={perEvent(stats.steps.map_time_in_millis)} />
        <Figure label="Write" value={format.duration(stats.steps.write_time_in_millis)} detail={`${perEvent(stats.steps.write_time_in_millis)}, ${format.number(stats.steps.write_retries)} retries`} />
        {counters.map(([name, count]) => (
          <Figure key={name} label={name} value={format.number(count)} detail="source counter" />
        ))}
      </Group>
    </Stack>
  );
}

/** Durable positions of a source that can be read again. */
function Partitions({ pipeline }: { pipeline: Pipeline }) {
  const format = useFormat();
  const partitions = pipeline.stats?.partitions ?? [];
  if (partitions.length === 0) return null;
  return (
    <Paper withBorder p="md" bg="var(--firn-surface)">
      <Title order={2} size="h5" mb="xs">
        Positions
      </Title>
      <Table.ScrollContainer minWidth={760}>
        <Table aria-label="Positions of the source">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Partition</Table.Th>
              <Table.Th ta="end">Continues at</Table.Th>
              <Table.Th ta="end">Read</Table.Th>
              <Table.Th ta="end">Indexed</Table.Th>
              <Table.Th ta="end">Filtered</Table.Th>
              <Table.Th ta="end">Dead letters</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {partitions.slice(0, PARTITIONS_SHOWN).map((partition) => (
              <Table.Tr key={partition.partition}>
                <Table.Td>{partition.partition}</Table.Td>
                <Table.Td ta="end">{format.number(partition.resume_offset)}</Table.Td>
                <Table.Td ta="end">{format.number(partition.read)}</Table.Td>
                <Table.Td ta="end">{format.number(partition.indexed)}</Table.Td>
                <Table.Td ta="end">{format.number(partition.filtered)}</Table.Td>
                <Table.Td ta="end">{format.number(partition.dead_lettered)}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {partitions.length > PARTITIONS_SHOWN && (
        <Text size="sm" c="dimmed">
          {format.number(PARTITIONS_SHOWN)} of {format.number(partitions.length)}
        </Text>
      )}
    </Paper>
  );
}

const PARTITIONS_SHOWN = 200;
