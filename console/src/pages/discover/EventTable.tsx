import { Button, Group, Loader, Text } from '@mantine/core';
import { IconArrowUp } from '@tabler/icons-react';
import { useVirtualizer } from '@tanstack/react-virtual';
import { type KeyboardEvent, memo, type ReactNode, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react';
import type { Hit } from '../../api/discover';
import type { Field } from '../../api/fields';
import { useFormat } from '../../app/preferences';
import { Part } from '../../components/Part';
import { Failed } from '../../components/Failed';
import { hitKey, withFresh } from '../../lib/paging';
import { type EventActions, EventRow } from './EventRow';
import classes from './EventTable.module.css';
import { EventHead } from './EventHead';
import { LeftOut } from './StageState';
import { COLUMN_PX_MIN, type ColumnState, type SortState } from './state';
import { useHeldTail } from './use-held-tail';
import { ROWS_MAX, type Rows } from './use-rows';
import { useSelecting } from './use-selecting';

const ROW_PX = { columns: 28, summary: 46 };
/** Fetches the next page when this many rows remain below. */
const AHEAD = 60;
const COLUMN_PX_SHARED = 140;
/** Width factor of text columns: sentences need more space than words. */
const TEXT_SHARE = 3;

interface Props {
  rows: Rows;
  /** Events of the live tail, newest first. */
  fresh: Hit[];
  columns: ColumnState[];
  sort: SortState[];
  timeField: string | null;
  fields: Map<string, Field>;
  /** Key fields, which come first in summaries. */
  first: string[];
  total: number | null;
  /** Key of the events and their order: the table scrolls to the top when it changes. */
  order: string | null;
  /** The rows belong to the previous request. */
  stale: boolean;
  /** Rendered if there are no rows. */
  empty: ReactNode;
  actions: EventActions;
  onColumns: (columns: ColumnState[]) => void;
  onSort: (sort: SortState[]) => void;
}

/** Virtualized table of events with infinite scrolling: only the rows on screen are rendered. */
export const EventTable = memo(function EventTable(props: Props) {
  const { rows, fresh, columns, sort, timeField, fields, first, total, order, stale, empty, actions, onColumns, onSort } = props;
  const format = useFormat();
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const [active, setActive] = useState<number | null>(null);
  const scroll = useRef<HTMLDivElement>(null);
  const grid = useRef<HTMLDivElement>(null);
  const [scrolled, setScrolled] = useState(false);
  const selecting = useSelecting(scroll);
  const busy = scrolled || selecting || open.size > 0 || active !== null;
  const { shown, waiting } = useHeldTail(fresh, busy);
  const hits = useMemo(() => withFresh(shown, rows.hits), [shown, rows.hits]);
  const keys = useMemo(() => hits.map(hitKey), [hits]);
  const rowPx = columns.length > 0 ? ROW_PX.columns : ROW_PX.summary;
  // The key changes when a row expands or collapses, which discards its measured height.
  const itemKey = useCallback((at: number) => `${keys[at]}${open.has(keys[at] ?? '') ? ' open' : ''} ${rowPx}`, [keys, open, rowPx]);
  const virtual = useVirtualizer({
    count: hits.length,
    getScrollElement: () => scroll.current,
    estimateSize: () => rowPx,
    getItemKey: itemKey,
    overscan: 8,
  });
  const items = virtual.getVirtualItems();
  const lastDrawn = items.at(-1)?.index ?? 0;
  const { hasMore, loading, error, loadMore } = rows;
  useEffect(() => {
    if (hasMore && !loading && !error && lastDrawn >= hits.length - AHEAD) loadMore();
  }, [hasMore, loading, error, lastDrawn, hits.length, loadMore]);

  const toTop = useCallback(() => {
    scroll.current?.scrollTo({ top: 0 });
    setScrolled(false);
    setActive(null);
  }, []);
  const shownOrder = useRef(order);
  useLayoutEffect(() => {
    if (stale || shownOrder.current === order) return;
    shownOrder.current = order;
    toTop();
  }, [order, stale, toTop]);
  // Events that are gone lose their expanded state.
  useEffect(() => {
    setOpen((open) => {
      if (open.size === 0) return open;
      const there = new Set(keys);
      const still = [...open].filter((key) => there.has(key));
      return still.length === open.size ? open : new Set(still);
    });
  }, [keys]);
  const resume = () => {
    setOpen(new Set());
    document.getSelection()?.removeAllRanges();
    toTop();
    grid.current?.focus({ preventScroll: true });
  };

  const toggle = useCallback((key: string) => {
    setOpen((open) => {
      const next = new Set(open);
      if (!next.delete(key)) next.add(key);
      return next;
    });
  }, []);

  const press = (event: KeyboardEvent) => {
    if (event.target !== grid.current || hits.length === 0) return;
    const at = active ?? -1;
    const page = Math.max(1, Math.floor((scroll.current?.clientHeight ?? 0) / rowPx) - 1);
    const moves: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: hits.length - 1 };
    const moved = moves[event.key];
    const key = active === null ? undefined : keys[active];
    if (moved !== undefined) {
      const next = Math.min(hits.length - 1, Math.max(0, moved));
      setActive(next);
      virtual.scrollToIndex(next);
    } else if ((event.key === 'Enter' || event.key === ' ') && key) toggle(key);
    else if (event.key === 'ArrowRight' && key && !open.has(key)) toggle(key);
    else if (event.key === 'ArrowLeft' && key && open.has(key)) toggle(key);
    else if (event.key === 'Escape' && active !== null) setActive(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };

  const shares = columns.map(({ name, width }) => (width ? `${width}px` : `minmax(${COLUMN_PX_SHARED}px, ${fields.get(name)?.type === 'text' ? TEXT_SHARE : 1}fr)`));
  const template = ['30px', ...(timeField === null ? [] : ['196px']), ...(columns.length === 0 ? ['minmax(300px, 1fr)'] : shares)].join(' ');
  const minWidth = 30 + (timeField === null ? 0 : 196) + (columns.length === 0 ? 300 : columns.reduce((sum, { width }) => sum + Math.max(COLUMN_PX_MIN, width ?? COLUMN_PX_SHARED), 0));
  return (
    <div className={classes.root}>
      {waiting > 0 && (
        <div className={classes.resume}>
          <Button size="compact-sm" radius="xl" leftSection={<IconArrowUp size={14} aria-hidden />} onClick={resume}>
            {format.number(waiting)} new {waiting === 1 ? 'event' : 'events'} – resume
          </Button>
        </div>
      )}
      <div ref={scroll} className={classes.scroll} onScroll={(event) => setScrolled(event.currentTarget.scrollTop >= 1)}>
        <div
          ref={grid}
          className={classes.inner}
          style={{ '--template': template, minWidth } as React.CSSProperties}
          role="treegrid"
          tabIndex={0}
          aria-label="Events"
          aria-rowcount={total === null ? -1 : total + shown.length + 1}
          aria-busy={stale}
          aria-activedescendant={active !== null && items.some(({ index }) => index === active) ? `event-${active}` : undefined}
          data-events
          onKeyDown={press}
          onBlur={(event) => event.target === grid.current && setActive(null)}
        >
          <EventHead columns={columns} sort={sort} timeField={timeField} fields={fields} onColumns={onColumns} onSort={onSort} />
          <div className={classes.body} data-stale={stale || undefined} role="rowgroup" style={{ height: virtual.getTotalSize() }}>
            {items.map((item) => {
              const hit = hits[item.index];
              const key = keys[item.index];
              if (!hit || key === undefined) return null;
              const isOpen = open.has(key);
              return (
                <div key={item.key} ref={isOpen ? virtual.measureElement : undefined} data-index={item.index} role="presentation" className={classes.item} style={{ transform: `translateY(${item.start}px)` }}>
                  <EventRow
                    hit={hit}
                    at={item.index}
                    id={`event-${item.index}`}
                    rowKey={key}
                    columns={columns}
                    timeField={timeField}
                    fields={fields}
                    first={first}
                    open={isOpen}
                    active={active === item.index}
                    fresh={item.index < shown.length}
                    actions={actions}
                    onToggle={toggle}
                  />
                </div>
              );
            })}
          </div>
        </div>
        <div className={classes.foot}>
          {hits.length === 0 && <Part lost="Failed to load suggestions" fallback={null}>{empty}</Part>}
          {loading && (
            <Group gap="xs" p="xs" role="status">
              <Loader size={14} />
              <Text size="xs" c="dimmed">
                Loading more events…
              </Text>
            </Group>
          )}
          <LeftOut name="Next page" incomplete={rows.incomplete} />
          {error !== null && <Failed compact title="More events: request failed" error={error} retry={loadMore} />}
          {hits.length >= ROWS_MAX && (
            <Text size="xs" c="dimmed" p="sm">
              The table shows at most {format.number(ROWS_MAX)} events. Narrow the time range or the query, or export all events.
            </Text>
          )}
          {hasMore && !loading && error === null && (
            <Button m="xs" size="compact-xs" variant="subtle" onClick={loadMore}>
              Load more events
            </Button>
          )}
        </div>
      </div>
    </div>
  );
});
