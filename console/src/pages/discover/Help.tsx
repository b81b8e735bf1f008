import { Kbd, Table } from '@mantine/core';
import { Dialog } from '../../components/Dialog';

const KEYS: [string[], string][] = [
  [['/'], 'Focus the query bar'],
  [['Enter'], 'In the query bar: run the query. On an event: expand or collapse it'],
  [['Tab'], 'In the query bar: accept the first suggestion'],
  [['Esc'], 'Close the open dialog or menu, or leave the query bar'],
  [['↑', '↓', 'Page ↑', 'Page ↓', 'Home', 'End'], 'In the table: move between events'],
  [['←', '→'], 'In the histogram: move between bars. Shift selects a range, Enter zooms in'],
  [['t'], 'Open the time picker'],
  [['f'], 'Find a field'],
  [['e'], 'Focus the events'],
  [['r'], 'Refresh'],
  [['l'], 'Toggle live tail'],
  [['?'], 'Show keyboard shortcuts'],
];

export default function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog onClose={onClose} title="Keyboard shortcuts" size="lg" centered>
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
