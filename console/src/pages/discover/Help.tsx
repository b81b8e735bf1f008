import { Kbd, Table } from '@mantine/core';
import { Dialog } from '../../components/Dialog';

const KEYS: [string[], string][] = [
  [['/'], 'Write a query'],
  [['Enter'], 'In the query: ask. On an event: open and close it'],
  [['Tab'], 'In the query: take the first suggestion'],
  [['Esc'], 'Close what is open, or leave the query'],
  [['↑', '↓', 'Page ↑', 'Page ↓', 'Home', 'End'], 'In the table: go from event to event'],
  [['←', '→'], 'In the histogram: go from bar to bar. With Shift: select. Enter zooms'],
  [['t'], 'Choose the time'],
  [['f'], 'Find a field'],
  [['e'], 'Go to the events'],
  [['r'], 'Ask again'],
  [['l'], 'Live tail on and off'],
  [['?'], 'This list'],
];

export default function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog onClose={onClose} title="Keys" size="lg" centered>
      <Table withRowBorders={false} verticalSpacing={5}>
        <Table.Tbody>
          {KEYS.map(([keys, what]) => (
            <Table.Tr key={what}>
              <Table.Td w={170}>
                {keys.map((key) => (
                  <Kbd key={key} size="xs" me={4} style={{ whiteSpace: 'nowrap' }}>
                    {key}
                  </Kbd>
                ))}
              </Table.Td>
              <Table.Td>{what}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Dialog>
  );
}
