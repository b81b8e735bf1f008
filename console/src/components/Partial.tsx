import { Alert, Button, Collapse, Table, Text } from '@mantine/core';
import { IconAlertCircle } from '@tabler/icons-react';
import { useState } from 'react';

/** Failed shard of a response, with the reason. Same shape as Elasticsearch's `_shards.failures`. */
export interface ShardFailure {
  shard?: number | null;
  index?: string | null;
  node?: string | null;
  reason?: { type?: string; reason?: string } | null;
}

interface Props {
  /** What is incomplete, such as "Histogram: 2 of 8 shards failed". */
  title: string;
  failures: ShardFailure[];
}

/** Partial state of a view: which shards are missing from the response, and why. */
export function Partial({ title, failures }: Props) {
  const [open, setOpen] = useState(false);
  return (
    <Alert role="alert" color="yellow" p="xs" icon={<IconAlertCircle size={18} aria-hidden />} title={title}>
      {failures.length > 0 && (
        <>
          <Button size="compact-xs" variant="default" aria-expanded={open} onClick={() => setOpen(!open)}>
            {open ? 'Hide missing shards' : 'Show missing shards'}
          </Button>
          <Collapse in={open}>
            <Table fz="xs" mt="xs" withRowBorders={false}>
              <Table.Thead>
                <Table.Tr>
                  <Table.Th>Index</Table.Th>
                  <Table.Th>Shard</Table.Th>
                  <Table.Th>Node</Table.Th>
                  <Table.Th>Reason</Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {failures.map((failure, at) => (
                  <Table.Tr key={at}>
                    <Table.Td>{failure.index ?? '–'}</Table.Td>
                    <Table.Td>{failure.shard ?? '–'}</Table.Td>
                    <Table.Td>{failure.node ?? '–'}</Table.Td>
                    <Table.Td>
                      <Text span size="xs" dir="auto">
                        {failure.reason?.reason ?? failure.reason?.type ?? 'no reason given'}
                      </Text>
                    </Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Collapse>
        </>
      )}
    </Alert>
  );
}
