import { COLUMN_PX_MAX, COLUMN_PX_MIN, type ColumnState, type SortState } from './state';

/** Moves the column at `from` to position `to`. */
export function moved(columns: readonly ColumnState[], from: number, to: number): ColumnState[] {
  const column = columns[from];
  if (!column || to < 0 || to >= columns.length) return [...columns];
  const rest = columns.filter((_, at) => at !== from);
  return [...rest.slice(0, to), column, ...rest.slice(to)];
}

/** Sets the width of the column at `at`; undefined shares the remaining space. */
export function resized(columns: readonly ColumnState[], at: number, width: number | undefined): ColumnState[] {
  return columns.map((column, index) => {
    if (index !== at) return column;
    const { name } = column;
    return width === undefined ? { name } : { name, width: Math.round(Math.min(COLUMN_PX_MAX, Math.max(COLUMN_PX_MIN, width))) };
  });
}

export function toggledColumn(columns: readonly ColumnState[], name: string): ColumnState[] {
  const rest = columns.filter((column) => column.name !== name);
  return rest.length < columns.length ? rest : [...columns, { name }];
}

/**
 * Returns the columns of an export: those of the table, including the time column, which is always first. Empty: all
 * fields.
 */
export function exportColumns(names: readonly string[], timeField: string | null): string[] {
  return names.length === 0 || timeField === null || names.includes(timeField) ? [...names] : [timeField, ...names];
}

/** Cycles the sort of a field: ascending, descending, unsorted. */
export function sortedBy(sort: readonly SortState[], field: string): SortState[] {
  const known = sort.find((one) => one.field === field);
  if (!known) return [{ field, desc: false }];
  return known.desc ? [] : [{ field, desc: true }];
}
