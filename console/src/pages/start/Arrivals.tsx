import { Button, Group, Loader, Text } from '@mantine/core';
import { IconCheck } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'react-router';
import { ApiError } from '../../api/errors';
import { search } from '../../api/search';
import { useFormat } from '../../app/preferences';
import { Failed } from '../../components/Failed';

const REFRESH_MS = 2000;

/** Event count of a stream, refreshed while events arrive. */
export function Arrivals({ stream }: { stream: string }) {
  const format = useFormat();
  const { data: count, error } = useQuery({ queryKey: ['arrivals', stream], queryFn: ({ signal }) => countOf(stream, signal), refetchInterval: REFRESH_MS });
  if (error) return <Failed title={`Failed to count the events in ${stream}`} error={error} compact />;
  return (
    <Group gap="sm" role="status" mih={30}>
      {count ? (
        <>
          <IconCheck size={18} color="var(--mantine-color-green-filled)" aria-hidden />
          <Text size="sm">
            <b>{format.number(count)}</b> {count === 1 ? 'event is' : 'events are'} in {stream}.
          </Text>
          <Button size="xs" component={Link} to={`/discover?i=${encodeURIComponent(stream)}`}>
            Open in Discover
          </Button>
        </>
      ) : (
        <>
          <Loader size={14} aria-hidden />
          <Text size="sm" c="dimmed">
            No events in {stream} yet. New events appear here within a second or two.
          </Text>
        </>
      )}
    </Group>
  );
}

/** Counts the events of a stream. A missing stream has none; users with limited privileges get a 403 for it. */
async function countOf(stream: string, signal: AbortSignal): Promise<number> {
  try {
    const { hits } = await search(stream, { size: 0, track_total_hits: true }, signal);
    return hits.total?.value ?? 0;
  } catch (error) {
    if (error instanceof ApiError && (error.status === 404 || error.status === 403)) return 0;
    throw error;
  }
}
