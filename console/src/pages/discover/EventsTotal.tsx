import { Text } from '@mantine/core';
import type { ReactNode } from 'react';
import type { Sample } from '../../api/discover';
import { useFormat } from '../../app/preferences';
import classes from './Discover.module.css';
import type { Stage } from './run';

interface Props {
  stage: Stage<Sample>;
  /** How many there are by now, where that was counted since. */
  counted: Sample['total'] | null;
  /** Events in the bars, where those are not as many. */
  bars: number | null;
  /** Events that the live tail has told. */
  fresh: number;
  live: boolean;
  children?: ReactNode;
}

/** How many events match, and how fast that was known. */
export function EventsTotal({ stage, counted, bars, fresh, live, children }: Props) {
  const format = useFormat();
  const total = stage.stale ? undefined : (counted ?? stage.result?.total);
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
      {bars !== null && total && (
        <Text size="xs" c="dimmed" title="Events that came in between are in one of the numbers alone. An event with several times is in several bars." data-bars={bars}>
          in the bars {format.number(bars)}: counted a moment apart
        </Text>
      )}
      {(live || fresh > 0) && (
        <Text size="xs" fw={600} {...(live && { c: 'red' })} role="status" data-fresh={fresh}>
          {live ? 'live' : 'paused'}: {format.number(fresh)} new
        </Text>
      )}
      {children}
    </div>
  );
}
