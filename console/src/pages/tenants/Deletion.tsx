import { Alert, List, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { fetchDeletion } from '../../api/tenants';
import { useFormat } from '../../app/preferences';
import { Answer } from '../../components/Answer';

const REFRESH_MS = 3000;

/** Progress of a tenant's deletion, and the snapshots that still contain its events. */
export function Deletion({ id }: { id: string }) {
  const format = useFormat();
  const deletion = useQuery({
    queryKey: ['tenants', id, 'deletion'],
    queryFn: ({ signal }) => fetchDeletion(id, signal),
    refetchInterval: ({ state }) => (state.data?.status === 'done' ? false : REFRESH_MS),
  });
  return (
    <Answer query={deletion} what="Deletion">
      {(data) => (
        <Alert color="red" mb="md" title={data.status === 'done' ? 'Tenant deleted' : 'Deleting tenant'}>
          <Text size="sm">
            {format.number(data.documents_removed)} events removed; {format.number(data.indices_done)} of {format.number(data.indices.length)} indices done.
          </Text>
          {data.snapshots.length > 0 && (
            <List size="sm" mt="xs">
              {data.snapshots.map((left) => (
                <List.Item key={`${left.repository}/${left.snapshot}`}>
                  Snapshot {left.snapshot} of {left.repository} {left.state}
                </List.Item>
              ))}
            </List>
          )}
          {(data.snapshots_not_read ?? []).map((unread) => (
            <Text size="sm" key={unread.snapshots_of}>
              {unread.snapshots_of} could not be read: {unread.error}
            </Text>
          ))}
          {(data.unknown ?? []).map((sentence) => (
            <Text size="sm" key={sentence}>
              Not known: {sentence}
            </Text>
          ))}
          {data.error !== undefined && <Text size="sm">The last attempt failed and is repeated: {data.error}</Text>}
        </Alert>
      )}
    </Answer>
  );
}
