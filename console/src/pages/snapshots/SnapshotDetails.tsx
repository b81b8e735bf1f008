import { Group, List, ScrollArea, Stack, Text } from '@mantine/core';
import type { Snapshot } from '../../api/snapshots';
import { useFormat } from '../../app/preferences';
import { Dialog } from '../../components/Dialog';
import { Figure } from '../../components/Figure';
import { Partial } from '../../components/Partial';
import { SnapshotState } from './SnapshotState';

/** Dialog with the contents of a snapshot and its missing shards. */
export function SnapshotDetails({ snapshot, onClose }: { snapshot: Snapshot; onClose: () => void }) {
  const format = useFormat();
  const failures = snapshot.failures.map(({ index, shard_id, reason }) => ({ index: index ?? null, shard: shard_id ?? null, reason: { reason: reason ?? '' } }));
  return (
    <Dialog onClose={onClose} title={snapshot.snapshot} centered size="lg">
      <Stack>
        <Group gap="sm" align="stretch">
          <Figure label="State" value={<SnapshotState state={snapshot.state} />} />
          <Figure label="Started" value={format.minute(snapshot.start_time_in_millis)} detail={snapshot.state === 'IN_PROGRESS' ? undefined : `took ${format.duration(snapshot.duration_in_millis)}`} />
          <Figure label="Shards" value={format.number(snapshot.shards.total)} detail={`${format.number(snapshot.shards.failed)} failed`} />
        </Group>
        {failures.length > 0 && <Partial title={`${format.number(failures.length)} shards are missing`} failures={failures} />}
        {snapshot.data_streams.length > 0 && <Names title="Data streams" names={snapshot.data_streams} />}
        <Names title="Indices" names={snapshot.indices} />
        {snapshot.include_global_state && (
          <Text size="sm" c="dimmed">
            Includes cluster state: templates, policies and settings.
          </Text>
        )}
      </Stack>
    </Dialog>
  );
}

function Names({ title, names }: { title: string; names: string[] }) {
  const format = useFormat();
  return (
    <div>
      <Text size="sm" fw={600}>
        {title} ({format.number(names.length)})
      </Text>
      <ScrollArea.Autosize mah={220} viewportProps={{ tabIndex: 0, role: 'region', 'aria-label': title }}>
        <List size="sm" listStyleType="none">
          {names.map((name) => (
            <List.Item key={name}>{name}</List.Item>
          ))}
        </List>
      </ScrollArea.Autosize>
    </div>
  );
}
