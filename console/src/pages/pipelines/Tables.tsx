import { Paper, Table, Text, Title } from '@mantine/core';
import type { TableStats } from '../../api/event-pipelines';
import { useFormat } from '../../app/preferences';

/** Enrichment tables in use, with their age. */
export function Tables({ tables }: { tables: TableStats[] }) {
  const format = useFormat();
  if (tables.length === 0) return null;
  return (
    <Paper withBorder p="md" bg="var(--firn-surface)">
      <Title order={2} size="h5" mb="xs">
        Tables
      </Title>
      <Table.ScrollContainer minWidth={560}>
        <Table aria-label="Enrichment tables">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Table</Table.Th>
              <Table.Th>Version</Table.Th>
              <Table.Th ta="end">Current as of</Table.Th>
              <Table.Th>Last refresh</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {tables.map((table) => (
              <Table.Tr key={table.name}>
                <Table.Td>{table.name}</Table.Td>
                <Table.Td>{table.version}</Table.Td>
                <Table.Td ta="end">{format.duration(table.age_in_millis)} ago</Table.Td>
                <Table.Td>
                  {table.error === null ? (
                    'succeeded'
                  ) : (
                    <Text size="sm" c="red">
                      {table.error}
                    </Text>
                  )}
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Paper>
  );
}
