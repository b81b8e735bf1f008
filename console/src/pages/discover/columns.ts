import { COLUMN_PX_MAX, COLUMN_PX_MIN, type ColumnState, type SortState } from './state';

/** The column at `from`, put where the one at `to` is. */
export function moved(columns: readonly ColumnState[], from: number, to: number): ColumnState[] {
  const column = columns[from];
  if (!column || to < 0 || to >= columns.length) return [...columns];
  const rest = columns.filter((_, at) => at !== from);
  return [...rest.slice(0, to), column, ...rest.slice(to)];
}

/** The column at `at` as wide as that; undefined shares what is left. */
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

/** The columns of a file: those of the table, which begins with the time also where nobody chose it. None: all there are. */
export function exportColumns(names: readonly string[], timeField: string | null): string[] {
  return names.length === 0 || timeField === null || names.includes(timeField) ? [...names] : [timeField, ...names];
}

/** Sorted by a field: upwards first, then downwards, then not any more. */
export function sortedBy(sort: readonly SortState[], field: string): SortState[] {
  const known = sort.find((one) => one.field === field);
  if (!known) return [{ field, desc: false }];
  return known.desc ? [] : [{ field, desc: true }];
}
