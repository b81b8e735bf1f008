import { Group, NumberInput, Select, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { listRepositories } from '../../api/repositories';
import { putSnapshotPolicy } from '../../api/slm';
import { FormDialog } from '../../components/FormDialog';
import { IndexNames } from './IndexNames';
import { isReadonly } from './places';

const SCHEDULES = [
  { value: '0 30 1 * * ?', label: 'Every night at 01:30 UTC' },
  { value: '0 0 * * * ?', label: 'Every hour' },
  { value: '0 30 1 ? * SUN', label: 'Every Sunday at 01:30 UTC' },
];

/** Dialog that creates a snapshot policy, or replaces the one with the same id. */
export function NewPolicy({ onMade, onClose }: { onMade: () => void; onClose: () => void }) {
  const repositories = useQuery({ queryKey: ['repositories'], queryFn: ({ signal }) => listRepositories(signal) });
  const places = Object.entries(repositories.data ?? {}).flatMap(([name, repository]) => (isReadonly(repository) ? [] : [name]));
  const [id, setId] = useState('nightly');
  const [schedule, setSchedule] = useState(SCHEDULES[0]?.value ?? '');
  const [repository, setRepository] = useState<string | null>(null);
  const [indices, setIndices] = useState<string[]>([]);
  const [expireAfter, setExpireAfter] = useState('30d');
  const [minCount, setMinCount] = useState<number | string>(5);
  const [maxCount, setMaxCount] = useState<number | string>(50);
  const place = repository ?? places[0] ?? null;
  return (
    <FormDialog
      title="Create snapshot policy"
      action="Create"
      ready={id.trim() !== '' && schedule.trim() !== '' && place !== null}
      onSubmit={async () => {
        await putSnapshotPolicy(id.trim(), {
          schedule: schedule.trim(),
          name: `<${id.trim()}-{now/d}>`,
          repository: place ?? '',
          config: { include_global_state: false, ...(indices.length > 0 && { indices }) },
          retention: {
            ...(expireAfter.trim() && { expire_after: expireAfter.trim() }),
            ...(typeof minCount === 'number' && { min_count: minCount }),
            ...(typeof maxCount === 'number' && { max_count: maxCount }),
          },
        });
        onMade();
      }}
      onClose={onClose}
    >
      <TextInput label="ID" description="Snapshots are named after the ID and the date. An existing policy with this ID is replaced." required data-autofocus value={id} onChange={(event) => setId(event.currentTarget.value)} />
      <Select label="Schedule" allowDeselect={false} data={SCHEDULES} value={schedule} onChange={(value) => setSchedule(value ?? '')} />
      <Select
        label="Repository"
        required
        allowDeselect={false}
        data={places}
        value={place}
        onChange={setRepository}
        {...(repositories.data && places.length === 0 && { error: 'No writable repository is registered' })}
      />
      <IndexNames value={indices} onChange={setIndices} />
      <Group grow align="flex-end">
        <TextInput label="Keep for" placeholder="forever" value={expireAfter} onChange={(event) => setExpireAfter(event.currentTarget.value)} />
        <NumberInput label="Minimum count" min={0} value={minCount} onChange={setMinCount} />
        <NumberInput label="Maximum count" min={1} value={maxCount} onChange={setMaxCount} />
      </Group>
    </FormDialog>
  );
}
