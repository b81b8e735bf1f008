import { Box, Group, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { useSearchParams } from 'react-router';
import { fetchEvent } from '../../api/events';
import { fetchFields } from '../../api/fields';
import { usePageTitle } from '../../app/page-title';
import { Answer } from '../../components/Answer';
import { Empty } from '../../components/Empty';
import EventDetail from './EventDetail';
import { eventOf } from './event-address';

/** Page of one event, opened by its link. */
export default function EventPage() {
  usePageTitle('Event');
  const [params] = useSearchParams();
  const name = useMemo(() => eventOf(params), [params]);
  const event = useQuery({ queryKey: ['discover', 'event', name], queryFn: ({ signal }) => (name ? fetchEvent(name, signal) : null), staleTime: Infinity });
  // Only for the field types, so that dates are shown in the user's zone. The event renders without them.
  const fields = useQuery({ queryKey: ['discover', 'fields', { index: name?.index }], queryFn: ({ signal }) => fetchFields({ index: name?.index ?? '' }, signal), enabled: name !== null });
  const byName = useMemo(() => new Map(fields.data?.fields.map((field) => [field.name, field])), [fields.data]);
  if (!name) return <Empty title="Invalid event link">The link must contain an index and an ID.</Empty>;
  return (
    <Box p="md" maw={1300} mx="auto">
      <Group gap="sm" mb="sm">
        <Title order={1} size="h4">
          Event
        </Title>
        <Text size="sm" c="dimmed" ff="monospace">
          <bdi>{name.id}</bdi> in <bdi>{name.index}</bdi>
        </Text>
      </Group>
      <Answer query={event} what="Event">
        {(hit) => hit && <EventDetail hit={hit} columns={[]} fields={byName} actions={null} />}
      </Answer>
    </Box>
  );
}
