import { describe, expect, it } from 'vitest';
import { exportColumns, moved, resized, sortedBy, toggledColumn } from './columns';
import { COLUMN_PX_MIN } from './state';

const COLUMNS = [{ name: 'a' }, { name: 'b', width: 200 }, { name: 'c' }];
const names = (columns: { name: string }[]) => columns.map(({ name }) => name).join('');

describe('columns', () => {
  it('move to the position of another column', () => {
    expect(names(moved(COLUMNS, 0, 2))).toBe('bca');
    expect(names(moved(COLUMNS, 2, 0))).toBe('cab');
    expect(names(moved(COLUMNS, 1, 1))).toBe('abc');
    expect(names(moved(COLUMNS, 0, 9))).toBe('abc');
    expect(names(moved(COLUMNS, 9, 0))).toBe('abc');
  });

  it('have widths within limits, or share the remaining space', () => {
    expect(resized(COLUMNS, 0, 5)[0]).toEqual({ name: 'a', width: COLUMN_PX_MIN });
    expect(resized(COLUMNS, 1, undefined)[1]).toEqual({ name: 'b' });
  });

  it('toggle', () => {
    expect(names(toggledColumn(COLUMNS, 'b'))).toBe('ac');
    expect(names(toggledColumn(COLUMNS, 'd'))).toBe('abcd');
  });

  it('cycle through ascending, descending and unsorted', () => {
    const up = sortedBy([], 'a');
    expect([up, sortedBy(up, 'a'), sortedBy(sortedBy(up, 'a'), 'a')]).toEqual([[{ field: 'a', desc: false }], [{ field: 'a', desc: true }], []]);
    expect(sortedBy(up, 'b')).toEqual([{ field: 'b', desc: false }]);
  });

  it('of an export begin with the time, as in the table', () => {
    expect(exportColumns(['host', 'message'], '@timestamp')).toEqual(['@timestamp', 'host', 'message']);
    expect(exportColumns(['host', '@timestamp'], '@timestamp')).toEqual(['host', '@timestamp']);
    expect(exportColumns(['host'], null)).toEqual(['host']);
    expect(exportColumns([], '@timestamp')).toEqual([]);
  });
});
