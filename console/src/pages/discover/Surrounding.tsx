import { Drawer, Group, NativeSelect, Text } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { Hit, Question } from '../../api/discover';
import { fetchSurrounding } from '../../api/events';
import type { Field } from '../../api/fields';
import { Answer } from '../../components/Answer';
import { Partial } from '../../components/Partial';
import { useReturnFocus } from '../../components/return-focus';
import { hitKey } from '../../lib/paging';
import { type EventActions, EventRow } from './EventRow';
import classes from './Surrounding.module.css';
import type { ColumnState } from './state';

const SIZES = ['5', '10', '25', '50', '100'];

interface Props {
  anchor: Hit;
  question: Question;
  columns: ColumnState[];
  timeField: string | null;
  fields: Map<string, Field>;
  first: string[];
  actions: EventActions;
  onClose: () => void;
}

/** Drawer with the events before and after one event, regardless of the query. */
export default function Surrounding({ anchor, question, columns, timeField, fields, first, actions, onClose }: Props) {
  useReturnFocus();
  const [size, setSize] = useState('10');
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const count = Number(size);
  const { index, time } = question;
  const name = { index: anchor._index, id: anchor._id };
  const asked: Question = {
    index,
    ...(time && { time: { field: time.field, zone: time.zone } }),
    ...(columns.length > 0 && { columns: columns.map(({ name }) => name) }),
  };
  const query = useQuery({
    queryKey: ['discover', 'surrounding', asked, name, count],
    queryFn: ({ signal }) => fetchSurrounding(asked, name, count, count, signal),
    placeholderData: keepPreviousData,
  });
  const toggle = (key: string) => {
    const next = new Set(open);
    if (!next.delete(key)) next.add(key);
    setOpen(next);
  };
  const template = ['30px', ...(timeField === null ? [] : ['196px']), ...(columns.length === 0 ? ['minmax(300px, 1fr)'] : columns.map(() => 'minmax(140px, 1fr)'))].join(' ');
  return (
    <Drawer opened onClose={onClose} position="bottom" size="75%" title="Surrounding events" closeButtonProps={{ 'aria-label': 'Close' }}>
      <Group gap="sm" mb="xs">
        <NativeSelect size="xs" label="Events before and after" data={SIZES} value={size} onChange={(event) => setSize(event.currentTarget.value)} />
        <Text size="xs" c="dimmed">
          All events of {index} around this one, newest first. Query, filters and time range do not apply.
        </Text>
      </Group>
      <Answer query={query} what="Surrounding events">
        {({ anchor, before, after, partial }) => (
          <>
            {partial && <Partial title="Some surrounding events may be missing" failures={[]} />}
            <div className={classes.list} role="treegrid" aria-label="Surrounding events" style={{ '--template': template } as React.CSSProperties}>
              {[...after.toReversed(), anchor, ...before.toReversed()].map((hit, at) => {
                const key = hitKey(hit);
                return (
                  <div key={key} role="presentation" className={hit === anchor ? classes.anchor : undefined} data-anchor={hit === anchor || undefined}>
                    <EventRow
                      hit={hit}
                      at={at}
                      id={`around-${at}`}
                      rowKey={key}
                      columns={columns}
                      timeField={timeField}
                      fields={fields}
                      first={first}
                      open={open.has(key)}
                      active={false}
                      fresh={false}
                      actions={actions}
                      onToggle={toggle}
                    />
                  </div>
                );
              })}
            </div>
          </>
        )}
      </Answer>
    </Drawer>
  );
}
