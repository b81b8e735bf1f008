import { Group, Paper, Stack, Table, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { type Coverage, type FieldCount, mappingCoverage } from '../../api/event-pipelines';
import { useFormat } from '../../app/preferences';
import { Answer } from '../../components/Answer';

const FIELDS_SHOWN = 50;

/** Which fields of the events of the last day have a common name, and which have none. */
export function MappingCoverage({ id }: { id: string }) {
  const format = useFormat();
  const query = useQuery({ queryKey: ['pipelines', id, 'coverage'], queryFn: ({ signal }) => mappingCoverage(id, signal), refetchInterval: 60_000 });
  return (
    <Paper withBorder p="md" bg="var(--firn-surface)">
      <Title order={2} size="h5" mb="xs">
        Mapping of the last day
      </Title>
      <Answer query={query} what="Mapping coverage">
        {(coverage: Coverage) => (
          <Stack gap="sm">
            <Text size="sm">
              {format.number(coverage.events)} events: {format.number(coverage.mapped.length)} common fields, {format.number(coverage.unmapped.length)} fields without a common name
              {coverage.not_counted > 0 && `, ${format.number(coverage.not_counted)} fields not counted`}
            </Text>
            <Group align="start" grow preventGrowOverflow={false}>
              <Fields title="Fields without a common name" fields={coverage.unmapped} events={coverage.events} />
              <Fields title="Values with another type than their target" fields={coverage.errors} events={coverage.events} />
              <Fields title="Common fields" fields={coverage.mapped} events={coverage.events} />
            </Group>
          </Stack>
        )}
      </Answer>
    </Paper>
  );
}

function Fields({ title, fields, events }: { title: string; fields: FieldCount[]; events: number }) {
  const format = useFormat();
  if (fields.length === 0) return null;
  return (
    <Table aria-label={title}>
      <Table.Thead>
        <Table.Tr>
          <Table.Th>{title}</Table.Th>
          <Table.Th ta="end">Events</Table.Th>
          <Table.Th ta="end">Share</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {fields.slice(0, FIELDS_SHOWN).map(({ field, events: count }) => (
          <Table.Tr key={field}>
            <Table.Td>{field}</Table.Td>
            <Table.Td ta="end">{format.number(count)}</Table.Td>
            <Table.Td ta="end">{events > 0 ? `${format.number(Math.round((count * 100) / events))} %` : ''}</Table.Td>
          </Table.Tr>
        ))}
        {fields.length > FIELDS_SHOWN && (
          <Table.Tr>
            <Table.Td colSpan={3}>
              {format.number(FIELDS_SHOWN)} of {format.number(fields.length)}
            </Table.Td>
          </Table.Tr>
        )}
      </Table.Tbody>
    </Table>
  );
}
