import { Table, Title } from '@mantine/core';
import type { ReactNode } from 'react';

/** Section with a title and a list of names with values; names without a value are left out. */
export function Facts({ title, rows, children }: { title: string; rows: (readonly [string, ReactNode])[]; children?: ReactNode }) {
  const filled = rows.filter(([, value]) => value !== undefined && value !== null && value !== '');
  if (filled.length === 0 && !children) return null;
  return (
    <section>
      <Title order={3} size="h6" mb={4}>
        {title}
      </Title>
      <Table aria-label={title} verticalSpacing={3} layout="fixed" withRowBorders={false}>
        <Table.Tbody>
          {filled.map(([label, value]) => (
            <Table.Tr key={label}>
              <Table.Th w={140} fw={400} c="dimmed" style={{ verticalAlign: 'top' }} scope="row">
                {label}
              </Table.Th>
              <Table.Td style={{ overflowWrap: 'anywhere' }}>{value}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      {children}
    </section>
  );
}
