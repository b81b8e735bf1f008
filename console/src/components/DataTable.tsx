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
  /** Value for sorting and searching. */
  value: (row: Row) => string | number | null;
  /** Value for sorting, if it differs: ranks of severities. */
  sortValue?: (row: Row) => number;
  /** Renders the cell; the plain value by default. */
  cell?: (row: Row) => ReactNode;
  /** Pixels; columns without a width share the remaining space. */
  width?: number;
  numeric?: boolean;
  /** False for columns that cannot be sorted, such as buttons. */
  sortable?: boolean;
}

interface Props<Row> {
  /** Name of the table for screen readers. */
  label: string;
  rows: Row[];
  columns: Column<Row>[];
  rowKey: (row: Row) => string;
  /** `column` or `-column`: default sort. */
  initialSort?: string;
  isSelected?: (row: Row) => boolean;
  /** Controls next to the search field. */
  tools?: ReactNode;
  /** Maximum height in pixels. */
  height?: number;
  /** Prefix of this table's URL parameters, if a page has several tables. */
  name?: string;
  /** Renders only the tools if there are no rows; the page renders the empty state. */
  hideWhenEmpty?: boolean;
  /** False if the rows are only a part of the result: the page filters on the server. */
  findable?: boolean;
}

const ROW_PX = 35;
/** Minimum number of rows for a search field. */
const FINDABLE_MIN = 8;

/**
 * Virtualized table: only the rows on screen are rendered, so 12,500 indices scroll like twelve. Sort and search are in the
 * URL. A real `table` with spacers above and below, so that screen readers know rows and columns.
 */
export function DataTable<Row>({ label, rows, columns, rowKey, initialSort, isSelected, tools, height = 560, name = '', hideWhenEmpty = false, findable = true }: Props<Row>) {
  const format = useFormat();
  const scroll = useRef<HTMLDivElement>(null);
  const { sort, find: typed, setSort, setFind } = useTableState(name, initialSort);
  const find = findable ? typed : '';
  const hasFind = findable && (rows.length >= FINDABLE_MIN || find !== '');
  const sorting: SortingState = useMemo(() => (sort ? [{ id: sort.replace(/^-/, ''), desc: sort.startsWith('-') }] : []), [sort]);
  const definitions = useMemo(
    () =>
      columns.map(
        ({ sortValue, ...column }): ColumnDef<Row> => ({
          id: column.id,
          header: column.title,
          // Missing values sort last in both directions.
          accessorFn: (row) => column.value(row) ?? undefined,
          sortUndefined: 'last',
          sortingFn: sortValue ? (left, right) => sortValue(left.original) - sortValue(right.original) : column.numeric ? 'basic' : 'alphanumeric',
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
      {(hasFind || tools) && (
        <Group mb="xs" gap="sm">
          {hasFind && (
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
          {findable && (
            <Text size="xs" c="dimmed" ms="auto" role="status">
              {shown.length === rows.length ? format.number(rows.length) : `${format.number(shown.length)} of ${format.number(rows.length)}`}
            </Text>
          )}
        </Group>
      )}
      {/* Focusable, so that keyboard users can scroll it. */}
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
            No matches for “{find}”.
          </Text>
        )}
      </div>
    </div>
  );
}

/** Minimum width of a column without a width. */
const SHARED_PX = 200;

function minWidth<Row>(columns: Column<Row>[]): number {
  return columns.reduce((sum, column) => sum + (column.width ?? SHARED_PX), 0);
}

/** Placeholder with the height of the rows that are not rendered. */
function Spacer({ height, columns }: { height: number; columns: number }) {
  if (height <= 0) return null;
  return (
    <tr className={classes.spacer} aria-hidden>
      <td colSpan={columns} style={{ height }} />
    </tr>
  );
}
