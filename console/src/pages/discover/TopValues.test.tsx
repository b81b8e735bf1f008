// @vitest-environment jsdom
import { MantineProvider } from '@mantine/core';
import { cleanup, fireEvent, render, screen } from '@testing-library/react';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Condition } from './filters';
import TopValues, { conditionOf } from './TopValues';

const asked = vi.fn();

beforeEach(() => {
  vi.stubGlobal('matchMedia', () => ({ matches: false, addEventListener: () => undefined, removeEventListener: () => undefined }));
  asked.mockImplementation(() => new Promise(() => undefined));
  vi.stubGlobal('fetch', asked);
});

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
  asked.mockReset();
});

function open(type: string, aggregatable: boolean, onFilter: (condition: Condition, not: boolean) => void = () => undefined) {
  const none = () => undefined;
  const field = { name: 'message', type, searchable: true, aggregatable, in_use: true };
  render(
    <MantineProvider env="test">
      <TopValues field={field} counted={field} question={{ index: 'a' }} isColumn={false} onFilter={onFilter} onColumn={none} />
    </MantineProvider>,
  );
}

it('explains why a text field has no top values, and does not request them', () => {
  open('text', false);
  expect(screen.getByText('Full-text field; map a keyword field, such as message.keyword, for top values')).toBeTruthy();
  expect(screen.queryByRole('status')).toBeNull();
  expect(screen.getByRole('button', { name: 'Exists' })).toBeTruthy();
  expect(asked).not.toHaveBeenCalled();
});

it('requests the top values of a keyword', () => {
  open('keyword', true);
  expect(screen.getByRole('status').textContent).toContain('Counting all matching events');
  expect(asked).toHaveBeenCalledOnce();
});

it('offers to include, exclude and copy a value', async () => {
  const done = { event: 'done', stage: 'top_values', field: 'message', took_ms: 1, partial: false, timed_out: false, cached: false, shards: { total: 1, successful: 1, skipped: 0, failed: 0 }, cost: { requests: 0, bytes: 0 } };
  const result = { field: 'message', type: 'keyword', total: 3, with_value: 3, missing: 0, other: 0, exact: true, values: [{ value: '=1+1', text: '=1+1', count: 3, percent: 100 }] };
  asked.mockImplementation(() => Promise.resolve(new Response(`data: ${JSON.stringify({ ...done, result })}\n\ndata: {"event":"end","took_ms":1}\n\n`)));
  const onFilter = vi.fn();
  const copied = vi.fn(() => Promise.resolve());
  vi.stubGlobal('navigator', { ...navigator, clipboard: { writeText: copied } });
  open('keyword', true, onFilter);
  const condition = { op: 'is', field: 'message', value: '=1+1' };
  fireEvent.click(await screen.findByRole('button', { name: '=1+1: include this value of message' }));
  fireEvent.click(screen.getByRole('button', { name: 'Include message: =1+1' }));
  fireEvent.click(screen.getByRole('button', { name: 'Exclude message: =1+1' }));
  expect(onFilter.mock.calls).toEqual([[condition, false], [condition, false], [condition, true]]);
  fireEvent.click(screen.getByRole('button', { name: 'Copy =1+1' }));
  expect(copied).toHaveBeenCalledExactlyOnceWith('=1+1');
});

it('counts a text field by its keyword sub-field, and checks existence on the text', async () => {
  const text = { name: 'host', type: 'text', searchable: true, aggregatable: false, in_use: true };
  const keyword = { ...text, name: 'host.keyword', type: 'keyword', aggregatable: true };
  const done = { event: 'done', stage: 'top_values', field: 'host.keyword', took_ms: 1, partial: false, timed_out: false, cached: false, shards: { total: 1, successful: 1, skipped: 0, failed: 0 } };
  const result = { field: 'host.keyword', type: 'keyword', total: 3, with_value: 3, missing: 0, other: 0, exact: true, values: [{ value: 'Web-1', text: 'Web-1', count: 3, percent: 100 }] };
  asked.mockImplementation(() => Promise.resolve(new Response(`data: ${JSON.stringify({ ...done, result })}\n\ndata: {"event":"end","took_ms":1}\n\n`)));
  const onFilter = vi.fn();
  const onColumn = vi.fn();
  render(
    <MantineProvider env="test">
      <TopValues field={text} counted={keyword} question={{ index: 'a' }} isColumn={false} onFilter={onFilter} onColumn={onColumn} />
    </MantineProvider>,
  );
  fireEvent.click(await screen.findByRole('button', { name: 'Exclude host: Web-1' }));
  fireEvent.click(screen.getByRole('button', { name: 'Exists' }));
  fireEvent.click(screen.getByRole('button', { name: 'Add as column' }));
  expect((JSON.parse(String((asked.mock.calls[0] as [string, { body: string }])[1].body)) as { stages: object[] }).stages).toEqual([{ stage: 'top_values', field: 'host.keyword', size: 10 }]);
  expect(onFilter.mock.calls).toEqual([
    [{ op: 'is', field: 'host.keyword', value: 'Web-1' }, true],
    [{ op: 'exists', field: 'host' }, false],
  ]);
  expect(onColumn).toHaveBeenCalledExactlyOnceWith('host');
  expect(screen.getByText(/Counted in host\.keyword/)).toBeTruthy();
});

it('filters by the counted value', () => {
  const conditionFor = (type: string, value: string | number | boolean, text = String(value)) => conditionOf('f', type, { value, text, count: 1, percent: 100 });
  expect(conditionFor('boolean', true)).toEqual({ op: 'is', field: 'f', value: true });
  expect(conditionFor('long', 7)).toEqual({ op: 'is', field: 'f', value: 7 });
  expect(conditionFor('date', 1000, '1970-01-01T00:00:01.000Z')).toEqual({ op: 'is', field: 'f', value: '1970-01-01T00:00:01.000Z' });
  // All nanoseconds of a millisecond are counted as one value.
  expect(conditionFor('date_nanos', 1123, '1970-01-01T00:00:01.123Z')).toEqual({ op: 'range', field: 'f', gte: '1970-01-01T00:00:01.123Z', lte: '1970-01-01T00:00:01.123999999Z' });
  expect(conditionFor('date_nanos', 86_400_000, '02.01.1970')).toEqual({ op: 'is', field: 'f', value: '02.01.1970' });
});
