import { Alert, Button, Collapse, Table, Text } from '@mantine/core';
import { IconAlertCircle } from '@tabler/icons-react';
import { useState } from 'react';

/** One shard that is missing from an answer, and why. As Elasticsearch's `_shards.failures`. */
export interface ShardFailure {
  shard?: number | null;
  index?: string | null;
  node?: string | null;
  reason?: { type?: string; reason?: string } | null;
}

interface Props {
  /** What is not whole, such as "The histogram leaves out 2 of 8 shards". */
  title: string;
  failures: ShardFailure[];
}

/** The partial look of any view: says that the answer is not whole, which shards are missing, and why. */
export function Partial({ title, failures }: Props) {
  const [open, setOpen] = useState(false);
  return (
    <Alert role="alert" color="yellow" p="xs" icon={<IconAlertCircle size={18} aria-hidden />} title={title}>
      {failures.length > 0 && (
        <>
          <Button size="compact-xs" variant="default" aria-expanded={open} onClick={() => setOpen(!open)}>
            {open ? 'Hide what is missing' : 'What is missing and why'}
          </Button>
          <Collapse in={open}>
            <Table fz="xs" mt="xs" withRowBorders={false}>
              <Table.Thead>
                <Table.Tr>
                  <Table.Th>Index</Table.Th>
                  <Table.Th>Shard</Table.Th>
                  <Table.Th>Node</Table.Th>
                  <Table.Th>Why</Table.Th>
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
