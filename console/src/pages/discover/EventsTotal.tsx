import { Text } from '@mantine/core';
import type { ReactNode } from 'react';
import type { Sample } from '../../api/discover';
import { useFormat } from '../../app/preferences';
import classes from './Discover.module.css';
import type { Stage } from './run';

interface Props {
  stage: Stage<Sample>;
  /** Latest total, if counted after the response. */
  counted: Sample['total'] | null;
  /** Number of events in the bars, if it differs from the total. */
  bars: number | null;
  /** Number of events from the live tail. */
  fresh: number;
  live: boolean;
  children?: ReactNode;
}

/** Number of matching events, and how long counting took. */
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
        <span className={classes.total}>{stage.status === 'loading' ? 'Searching…' : stage.stale ? 'Previous results' : ''}</span>
      )}
      {stage.status === 'partial' && (
        <Text size="xs" c="dimmed">
          counting…
        </Text>
      )}
      {stage.tookMs !== null && !stage.stale && (
        <Text size="xs" c="dimmed">
          {format.duration(stage.tookMs)}
          {stage.cached && ', cached'}
        </Text>
      )}
      {bars !== null && total && (
        <Text size="xs" c="dimmed" title="Total and chart are counted at slightly different times, so events that arrive in between are only in one of them. An event with several timestamps is in several bars." data-bars={bars}>
          Chart shows {format.number(bars)} (counted slightly earlier or later)
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
