import { Alert, Table, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import { useFormat } from '../../app/preferences';
import { byMember, type ImportSum } from './import-files';
import classes from './ImportRules.module.css';

const ROWS_SHOWN = 200;
const NAMES_SHOWN = 3;

/** What an import did: counts, the rules that were refused, what of the others was not taken over, and what was in another way. */
export function ImportResults({ sum: { imported, refused, notTaken, notes } }: { sum: ImportSum }) {
  const format = useFormat();
  const names = (rules: readonly string[]) => {
    const shown = rules.slice(0, NAMES_SHOWN).join(', ');
    return rules.length > NAMES_SHOWN ? `${shown} and ${format.number(rules.length - NAMES_SHOWN)} more` : shown;
  };
  return (
    <>
      <Alert role="status" color={refused.length > 0 ? 'yellow' : 'green'} p="xs" title={`${format.number(imported.length)} imported, ${format.number(refused.length)} refused`} />
      <Results
        label="Refused rules"
        heads={['Rule', 'Place', 'Reason']}
        rows={refused.map(({ id, name, place, reason }) => [name || id || '(no name)', place, reason])}
      />
      <Results label="Not taken over" heads={['Member', 'Reason', 'Rules']} rows={byMember(notTaken).map(({ member, reason, rules }) => [member, reason, names(rules)])} />
      <Results label="Notes" heads={['Member', 'Note', 'Rules']} rows={byMember(notes).map(({ member, reason, rules }) => [member, reason, names(rules)])} />
    </>
  );
}

function Results({ label, heads, rows }: { label: string; heads: string[]; rows: string[][] }): ReactNode {
  const format = useFormat();
  if (rows.length === 0) return null;
  return (
    <div>
      <Text size="sm" fw={600}>
        {label}
      </Text>
      {/* Focusable, so that keyboard users can scroll it. */}
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex */}
      <div className={classes.results} tabIndex={0} role="region" aria-label={label}>
        <Table aria-label={label} stickyHeader>
          <Table.Thead>
            <Table.Tr>
              {heads.map((head) => (
                <Table.Th key={head}>{head}</Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {rows.slice(0, ROWS_SHOWN).map((cells, at) => (
              <Table.Tr key={at}>
                {cells.map((cell, column) => (
                  <Table.Td key={column} style={{ overflowWrap: 'anywhere' }}>
                    {cell}
                  </Table.Td>
                ))}
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
        {rows.length > ROWS_SHOWN && (
          <Text size="sm" c="dimmed" p="xs">
            and {format.number(rows.length - ROWS_SHOWN)} more
          </Text>
        )}
      </div>
    </div>
  );
}
