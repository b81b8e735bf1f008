import { ActionIcon } from '@mantine/core';
import { IconArrowDown, IconArrowLeft, IconArrowRight, IconArrowUp, IconArrowsHorizontal, IconDotsVertical, IconX } from '@tabler/icons-react';
import { type DragEvent, type KeyboardEvent, memo, type PointerEvent, useRef, useState } from 'react';
import type { Field } from '../../api/fields';
import { Menu } from '../../components/Menu';
import classes from './EventTable.module.css';
import { moved, resized, sortedBy } from './columns';
import { valueField } from './multi-fields';
import { COLUMN_PX_MAX, COLUMN_PX_MIN, type ColumnState, type SortState } from './state';

const STEP_PX = 20;
const DRAGGED = 'application/x-firn-column';

interface Props {
  columns: ColumnState[];
  sort: SortState[];
  timeField: string | null;
  fields: Map<string, Field>;
  onColumns: (columns: ColumnState[]) => void;
  onSort: (sort: SortState[]) => void;
}

/** Header row: click to sort, drag to move, drag the edge to resize; all also by keyboard. */
export const EventHead = memo(function EventHead({ columns, sort, timeField, fields, onColumns, onSort }: Props) {
  const byTime: SortState | undefined = sort.length === 0 && timeField !== null ? { field: timeField, desc: true } : sort.find(({ field }) => field === timeField);
  return (
    <div role="rowgroup" className={classes.head}>
      <div role="row" aria-rowindex={1} style={{ display: 'contents' }}>
        <div role="columnheader" aria-label="Expand" className={classes.headCell} />
        {timeField !== null && (
          <div role="columnheader" className={classes.headCell} aria-sort={ariaSort(byTime)}>
            <SortButton name={timeField} sorted={byTime} onSort={() => onSort(byTime?.desc === false ? [] : [{ field: timeField, desc: false }])} />
          </div>
        )}
        {columns.length === 0 && (
          <div role="columnheader" className={classes.headCell}>
            <span className={classes.plain}>Event</span>
          </div>
        )}
        {columns.map((column, at) => {
          const values = valueField(column.name, fields);
          return (
            <HeadCell
              key={column.name}
              column={column}
              at={at}
              last={at === columns.length - 1}
              sortable={fields.get(values)?.aggregatable ?? true}
              sorted={sort.find(({ field }) => field === values)}
              onSort={() => onSort(sortedBy(sort, values))}
              onMove={(from, to) => onColumns(moved(columns, from, to))}
              onResize={(width) => onColumns(resized(columns, at, width))}
              onRemove={() => onColumns(columns.filter((_, index) => index !== at))}
            />
          );
        })}
      </div>
    </div>
  );
});

const ariaSort = (sorted: SortState | undefined) => (sorted ? (sorted.desc ? 'descending' : 'ascending') : undefined);

function SortButton({ name, sorted, onSort }: { name: string; sorted: SortState | undefined; onSort: () => void }) {
  return (
    <button type="button" className={classes.sort} onClick={onSort} title={name}>
      <span>{name}</span>
      {sorted && (sorted.desc ? <IconArrowDown size={13} aria-hidden /> : <IconArrowUp size={13} aria-hidden />)}
    </button>
  );
}

interface CellProps {
  column: ColumnState;
  at: number;
  last: boolean;
  sortable: boolean;
  sorted: SortState | undefined;
  onSort: () => void;
  onMove: (from: number, to: number) => void;
  onResize: (width: number | undefined) => void;
  onRemove: () => void;
}

function HeadCell({ column, at, last, sortable, sorted, onSort, onMove, onResize, onRemove }: CellProps) {
  const cell = useRef<HTMLDivElement>(null);
  const [over, setOver] = useState(false);
  const { name } = column;
  const drop = (event: DragEvent) => {
    setOver(false);
    const from = Number(event.dataTransfer.getData(DRAGGED));
    if (Number.isInteger(from) && event.dataTransfer.types.includes(DRAGGED)) onMove(from, at);
  };
  return (
    <div
      ref={cell}
      role="columnheader"
      tabIndex={-1}
      className={classes.headCell}
      aria-sort={ariaSort(sorted)}
      data-over={over || undefined}
      draggable
      onDragStart={(event) => event.dataTransfer.setData(DRAGGED, String(at))}
      onDragOver={(event) => {
        if (!event.dataTransfer.types.includes(DRAGGED)) return;
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={drop}
    >
      {sortable ? <SortButton name={name} sorted={sorted} onSort={onSort} /> : <span className={classes.plain}>{name}</span>}
      <Menu position="bottom-end">
        <Menu.Target>
          <ActionIcon className={classes.menu ?? ''} variant="subtle" color="gray" size={24} aria-label={`Column ${name}`}>
            <IconDotsVertical size={13} aria-hidden />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item disabled={at === 0} leftSection={<IconArrowLeft size={14} aria-hidden />} onClick={() => onMove(at, at - 1)}>
            Move left
          </Menu.Item>
          <Menu.Item disabled={last} leftSection={<IconArrowRight size={14} aria-hidden />} onClick={() => onMove(at, at + 1)}>
            Move right
          </Menu.Item>
          <Menu.Item disabled={!column.width} leftSection={<IconArrowsHorizontal size={14} aria-hidden />} onClick={() => onResize(undefined)}>
            Reset width
          </Menu.Item>
          <Menu.Item leftSection={<IconX size={14} aria-hidden />} onClick={onRemove}>
            Remove column
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <ResizeHandle name={name} known={column.width} width={() => cell.current?.getBoundingClientRect().width ?? COLUMN_PX_MIN} onResize={onResize} />
    </div>
  );
}

function ResizeHandle({ name, known, width, onResize }: { name: string; known: number | undefined; width: () => number; onResize: (width: number) => void }) {
  const start = useRef<{ x: number; width: number } | null>(null);
  const shown = useRef<HTMLDivElement>(null);
  const at = (event: PointerEvent) => (start.current ? start.current.width + event.clientX - start.current.x : 0);
  const down = (event: PointerEvent<HTMLDivElement>) => {
    event.preventDefault();
    event.currentTarget.setPointerCapture(event.pointerId);
    start.current = { x: event.clientX, width: width() };
  };
  const up = (event: PointerEvent) => {
    if (start.current && at(event) !== start.current.width) onResize(at(event));
    start.current = null;
    if (shown.current) shown.current.style.transform = '';
  };
  const press = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -STEP_PX, ArrowRight: STEP_PX }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    onResize(Math.min(COLUMN_PX_MAX, width() + step));
  };
  return (
    // A movable separator is focusable, as the ARIA pattern for window splitters requires.
    /* eslint-disable jsx-a11y/no-noninteractive-tabindex, jsx-a11y/no-noninteractive-element-interactions */
    <div
      ref={shown}
      role="separator"
      tabIndex={0}
      className={classes.resize}
      aria-orientation="vertical"
      aria-label={`Width of column ${name}`}
      aria-valuemin={COLUMN_PX_MIN}
      aria-valuemax={COLUMN_PX_MAX}
      aria-valuenow={Math.round(known ?? COLUMN_PX_MIN)}
      aria-valuetext={known ? `${known} pixels` : 'automatic'}
      draggable
      onDragStart={(event) => {
        event.preventDefault();
        event.stopPropagation();
      }}
      onPointerDown={down}
      onPointerMove={(event) => {
        if (start.current && shown.current) shown.current.style.transform = `translateX(${at(event) - start.current.width}px)`;
      }}
      onPointerUp={up}
      onPointerCancel={up}
      onKeyDown={press}
    />
  );
}
