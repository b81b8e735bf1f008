import { Group, Text, TextInput, VisuallyHidden } from '@mantine/core';
import { IconArrowDown, IconArrowUp, IconSearch } from '@tabler/icons-react';
import { type ColumnDef, flexRender, getCoreRowModel, getFilteredRowModel, getSortedRowModel, type SortingState, useReactTable } from '@tanstack/react-table';
import { useVirtualizer } from '@tanstack/react-virtual';
import { type ReactNode, useMemo, useRef } from 'react';
import { useFormat } from '../app/preferences';
import classes from './DataTable.module.css';
import { useTableState } from './use-table-state';

export interface Column<Row> {
  id: string;
  title: string;
  /** What rows are sorted by and found by. */
  value: (row: Row) => string | number | null;
  /** How it is shown; the value as it is without one. */
  cell?: (row: Row) => ReactNode;
  /** Pixels; columns without share what is left. */
  width?: number;
  numeric?: boolean;
  /** False where sorting means nothing, as for buttons. */
  sortable?: boolean;
}

interface Props<Row> {
  /** What the table is of, for screen readers. */
  label: string;
  rows: Row[];
  columns: Column<Row>[];
  rowKey: (row: Row) => string;
  /** `column` or `-column`: how it is sorted until the reader chooses. */
  initialSort?: string;
  isSelected?: (row: Row) => boolean;
  /** Beside the field that finds rows. */
  tools?: ReactNode;
  /** Pixels at most. */
  height?: number;
  /** Where several tables share an address: a prefix of this one's parameters. */
  name?: string;
  /** Draws the tools alone where there are no rows, and leaves the empty look to the page. */
  hideWhenEmpty?: boolean;
}

const ROW_PX = 35;
/** Fewer rows need no field to find them. */
const FINDABLE_MIN = 8;

/**
 * A table of any length: only the rows on screen are drawn, 12,500 indices scroll like twelve. Sorting and finding are in
 * the address. A real `table` with spacers above and below, so that screen readers know rows and columns.
 */
export function DataTable<Row>({ label, rows, columns, rowKey, initialSort, isSelected, tools, height = 560, name = '', hideWhenEmpty = false }: Props<Row>) {
  const format = useFormat();
  const scroll = useRef<HTMLDivElement>(null);
  const { sort, find, setSort, setFind } = useTableState(name, initialSort);
  const sorting: SortingState = useMemo(() => (sort ? [{ id: sort.replace(/^-/, ''), desc: sort.startsWith('-') }] : []), [sort]);
  const definitions = useMemo(
    () =>
      columns.map(
        (column): ColumnDef<Row> => ({
          id: column.id,
          header: column.title,
          // What is not there sorts last, whichever way.
          accessorFn: (row) => column.value(row) ?? undefined,
          sortUndefined: 'last',
          sortingFn: column.numeric ? 'basic' : 'alphanumeric',
          enableSorting: column.sortable !== false,
          cell: ({ row }) => (column.cell ? column.cell(row.original) : column.value(row.original)),
        }),
      ),
    [columns],
  );
  const table = useReactTable({
    data: rows,
    columns: definitions,
    state: { sorting, globalFilter: find },
    getRowId: rowKey,
    globalFilterFn: 'includesString',
    getColumnCanGlobalFilter: () => true,
    getCoreRowModel: getCoreRowModel(),
    getSortedRowModel: getSortedRowModel(),
    getFilteredRowModel: getFilteredRowModel(),
  });
  const shown = table.getRowModel().rows;
  const virtual = useVirtualizer({ count: shown.length, getScrollElement: () => scroll.current, estimateSize: () => ROW_PX, overscan: 12 });
  const items = virtual.getVirtualItems();
  const above = items[0]?.start ?? 0;
  const below = virtual.getTotalSize() - (items.at(-1)?.end ?? 0);
  const byId = new Map(columns.map((column) => [column.id, column]));

  return (
    <div>
      {(rows.length >= FINDABLE_MIN || find || tools) && (
        <Group mb="xs" gap="sm">
          {(rows.length >= FINDABLE_MIN || find) && (
            <TextInput
              size="xs"
              w={260}
              aria-label={`Find in ${label}`}
              placeholder="Find"
              leftSection={<IconSearch size={14} aria-hidden />}
              value={find}
              onChange={(event) => setFind(event.currentTarget.value)}
            />
          )}
          {tools}
          <Text size="xs" c="dimmed" ms="auto" role="status">
            {shown.length === rows.length ? format.number(rows.length) : `${format.number(shown.length)} of ${format.number(rows.length)}`}
          </Text>
        </Group>
      )}
      {/* Whoever has no mouse scrolls it by keys, so it takes the focus. */}
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex */}
      <div ref={scroll} hidden={hideWhenEmpty && rows.length === 0} className={classes.scroll} style={{ maxHeight: height }} tabIndex={0} role="region" aria-label={label}>
        <table className={classes.table} aria-rowcount={shown.length + 1} style={{ minWidth: minWidth(columns) }}>
          <caption>
            <VisuallyHidden>{label}</VisuallyHidden>
          </caption>
          <colgroup>
            {columns.map((column) => (
              <col key={column.id} style={column.width ? { width: column.width } : undefined} />
            ))}
          </colgroup>
          <thead>
            <tr aria-rowindex={1}>
              {table.getFlatHeaders().map((header) => {
                const column = byId.get(header.id);
                const sorted = header.column.getIsSorted();
                const title = column?.title ?? '';
                return (
                  <th
                    key={header.id}
                    scope="col"
                    className={column?.numeric ? classes.numeric : undefined}
                    aria-sort={sorted === 'asc' ? 'ascending' : sorted === 'desc' ? 'descending' : undefined}
                  >
                    {header.column.getCanSort() ? (
                      <button type="button" className={classes.sort} onClick={() => setSort(sorted === 'asc' ? `-${header.id}` : header.id)}>
                        {title}
                        {sorted === 'asc' && <IconArrowUp size={13} aria-hidden />}
                        {sorted === 'desc' && <IconArrowDown size={13} aria-hidden />}
                      </button>
                    ) : (
                      <span className={classes.plain}>{title === '' ? <VisuallyHidden>Actions</VisuallyHidden> : title}</span>
                    )}
                  </th>
                );
              })}
            </tr>
          </thead>
          <tbody>
            <Spacer height={above} columns={columns.length} />
            {items.map((item) => {
              const row = shown[item.index];
              if (!row) return null;
              return (
                <tr key={row.id} aria-rowindex={item.index + 2} data-selected={isSelected?.(row.original) || undefined}>
                  {row.getVisibleCells().map((cell) => {
                    const column = byId.get(cell.column.id);
                    const value = column?.value(row.original);
                    return (
                      <td key={cell.id} className={column?.numeric ? classes.numeric : undefined} title={typeof value === 'string' ? value : undefined}>
                        {flexRender(cell.column.columnDef.cell, cell.getContext())}
                      </td>
                    );
                  })}
                </tr>
              );
            })}
            <Spacer height={below} columns={columns.length} />
          </tbody>
        </table>
        {shown.length === 0 && (
          <Text size="sm" c="dimmed" p="md" ta="center">
            Nothing here is called “{find}”.
          </Text>
        )}
      </div>
    </div>
  );
}

/** A column that shares what is left still needs this much. */
const SHARED_PX = 200;

function minWidth<Row>(columns: Column<Row>[]): number {
  return columns.reduce((sum, column) => sum + (column.width ?? SHARED_PX), 0);
}

/** Stands for the rows that are not drawn. */
function Spacer({ height, columns }: { height: number; columns: number }) {
  if (height <= 0) return null;
  return (
    <tr className={classes.spacer} aria-hidden>
      <td colSpan={columns} style={{ height }} />
    </tr>
  );
}
