import { Text } from '@mantine/core';
import type { Sample } from '../../api/discover';
import { useFormat } from '../../app/preferences';
import classes from './Discover.module.css';
import type { Stage } from './run';

/** How many events match, and how fast that was known. */
export function EventsTotal({ stage, fresh, live }: { stage: Stage<Sample>; fresh: number; live: boolean }) {
  const format = useFormat();
  const total = stage.stale ? undefined : stage.result?.total;
  return (
    <div className={classes.summaryBar}>
      {total ? (
        <span className={classes.total} role="status" data-total={total.value}>
          {total.relation === 'gte' && 'at least '}
          {format.number(total.value)} {total.value === 1 ? 'event' : 'events'}
        </span>
      ) : (
        <span className={classes.total}>{stage.status === 'loading' ? 'Searching…' : stage.stale ? 'The answer before' : ''}</span>
      )}
      {stage.status === 'partial' && (
        <Text size="xs" c="dimmed">
          counting all…
        </Text>
      )}
      {stage.tookMs !== null && !stage.stale && (
        <Text size="xs" c="dimmed">
          {format.duration(stage.tookMs)}
          {stage.cached && ', from the cache'}
        </Text>
      )}
      {live && (
        <Text size="xs" fw={600} c="red" role="status" data-fresh={fresh}>
          live: {format.number(fresh)} new
        </Text>
      )}
    </div>
  );
}
