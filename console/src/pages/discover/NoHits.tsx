import { Button, Group, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { Question, Sample } from '../../api/discover';
import { discoverStage } from '../../api/discover';
import { useFormat } from '../../app/preferences';
import { Empty } from '../../components/Empty';
import { dateMs, valueAt } from '../../lib/event-fields';
import { incomplete } from './run';
import { LeftOut } from './StageState';
import { absoluteRange, type TimeRange } from '../../lib/time-range';

interface Props {
  /** With the instants that nothing was found between. */
  question: Question;
  /** Filters or a query narrow it. */
  narrowed: boolean;
  onRange: (range: TimeRange) => void;
  onWiden: () => void;
}

/** Nothing was found: says where there is something, and leads there. */
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
    <Empty title={time ? 'No events match in this time' : 'No events match'}>
      {found && found.newestMs !== null && (
        <>
          <Text size="sm">
            At other times {found.total.relation === 'gte' && 'at least '}
            {format.number(found.total.value)} do, the newest at {format.time(found.newestMs)}.
          </Text>
          <Group justify="center" mt="xs">
            <Button size="xs" onClick={() => onRange(absoluteRange((found.newestMs ?? 0) - spanMs, (found.newestMs ?? 0) + 999))}>
              Show the {format.duration(spanMs)} up to it
            </Button>
          </Group>
        </>
      )}
      {found && <LeftOut name="The search at other times" incomplete={found.incomplete} />}
      {found && found.newestMs === null && found.total.value > 0 && <Text size="sm">{format.number(found.total.value)} without a time do.</Text>}
      {found && found.total.value === 0 && !found.incomplete && <Text size="sm">{narrowed ? 'At no other time either.' : 'There are no events at other times either.'}</Text>}
      {narrowed && (
        <Button size="xs" variant="default" mt="xs" onClick={onWiden}>
          Without the query and the filters
        </Button>
      )}
    </Empty>
  );
}
