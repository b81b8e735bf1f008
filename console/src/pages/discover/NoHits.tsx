import { Button, Group, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { Question, Sample } from '../../api/discover';
import { discoverStage } from '../../api/discover';
import { useFormat } from '../../app/preferences';
import { Empty } from '../../components/Empty';
import { dateMs, valueAt } from '../../lib/event-fields';
import { incomplete } from './run';
import { LeftOut } from './StageState';
import { absoluteRange, spanText, type TimeRange } from '../../lib/time-range';

interface Props {
  /** Request without hits, with absolute times. */
  question: Question;
  /** Whether it has a query or filters. */
  narrowed: boolean;
  onRange: (range: TimeRange) => void;
  onWiden: () => void;
}

/** Empty state of a search without hits: looks for matches outside the time range, and offers to go there. */
export default function NoHits({ question, narrowed, onRange, onWiden }: Props) {
  const format = useFormat();
  const { time } = question;
  const elsewhere = useQuery({
    queryKey: ['discover', 'elsewhere', question],
    enabled: time !== undefined,
    queryFn: async ({ signal }) => {
      const newestFirst = { ...question };
      delete newestFirst.sort;
      const open = time ? { ...newestFirst, time: { field: time.field, zone: time.zone } } : newestFirst;
      const done = await discoverStage<Sample>(open, { stage: 'sample', size: 1 }, signal);
      const { total, hits } = done.result;
      const newest = hits[0];
      return { total, incomplete: incomplete(done), newestMs: newest && time ? dateMs(newest.sort?.[0] ?? valueAt(newest._source, time.field)) : null };
    },
  });
  const found = elsewhere.data;
  const spanMs = time && typeof time.from === 'number' && typeof time.to === 'number' ? Math.max(60_000, time.to - time.from) : 86_400_000;
  return (
    <Empty title={time ? 'No events match in this time range' : 'No events match'}>
      {found && found.newestMs !== null && (
        <>
          <Text size="sm">
            {found.total.relation === 'gte' && 'At least '}
            {format.number(found.total.value)} {found.total.value === 1 ? 'match' : 'matches'} outside this range; latest: {format.time(found.newestMs)}
          </Text>
          <Group justify="center" mt="xs">
            <Button size="xs" onClick={() => onRange(absoluteRange((found.newestMs ?? 0) - spanMs, (found.newestMs ?? 0) + 999))}>
              Show the {spanText(spanMs, format)} before it
            </Button>
          </Group>
        </>
      )}
      {found && <LeftOut name="Search outside this range" incomplete={found.incomplete} />}
      {found && found.newestMs === null && found.total.value > 0 && (
        <Text size="sm">
          {format.number(found.total.value)} matching {found.total.value === 1 ? 'event has' : 'events have'} no timestamp
        </Text>
      )}
      {found && found.total.value === 0 && !found.incomplete && <Text size="sm">{narrowed ? 'No matches at any time' : 'No events at any time'}</Text>}
      {narrowed && (
        <Button size="xs" variant="default" mt="xs" onClick={onWiden}>
          Clear query and filters
        </Button>
      )}
    </Empty>
  );
}
