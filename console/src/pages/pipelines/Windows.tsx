import { Alert, Group, Paper, Title } from '@mantine/core';
import { IconAlertTriangle } from '@tabler/icons-react';
import type { WindowStats } from '../../api/event-pipelines';
import { useFormat } from '../../app/preferences';
import { Figure } from '../../components/Figure';

/** Windows of the aggregates of a pipeline. */
export function Windows({ windows }: { windows: WindowStats }) {
  const format = useFormat();
  return (
    <Paper withBorder p="md" bg="var(--firn-surface)">
      <Title order={2} size="h5" mb="xs">
        Aggregates
      </Title>
      {windows.error !== null && (
        <Alert color="red" icon={<IconAlertTriangle aria-hidden />} title="Windows cannot be closed" mb="sm">
          {windows.error}
        </Alert>
      )}
      <Group gap="sm" align="stretch">
        <Figure label="Open windows" value={format.number(windows.open)} detail={`${format.number(windows.keys)} keys`} />
        <Figure label="Events written" value={format.number(windows.events)} detail="of closed windows" />
        <Figure label="Late events" value={format.number(windows.late_events)} detail="since the start" />
        <Figure label="Overflowed events" value={format.number(windows.overflowed_events)} detail="of keys above the maximum" />
        <Figure label="Rejected" value={format.number(windows.rejected)} detail="dead letters" />
      </Group>
    </Paper>
  );
}
