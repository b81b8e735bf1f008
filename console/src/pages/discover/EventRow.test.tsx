// @vitest-environment jsdom
import { MantineProvider } from '@mantine/core';
import { cleanup, render } from '@testing-library/react';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Hit } from '../../api/discover';
import { type EventActions, EventRow } from './EventRow';

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

const nothing = () => {};
const actions: EventActions = { onFilter: nothing, onColumn: nothing, onSurrounding: nothing, onCopy: nothing };

beforeEach(() => void vi.stubGlobal('matchMedia', () => ({ matches: false, addEventListener: nothing, removeEventListener: nothing })));

function show(hit: Hit, columns: string[] = []) {
  render(
    <MantineProvider>
      <EventRow hit={hit} at={0} id="row" rowKey="1" columns={columns.map((name) => ({ name }))} timeField="@timestamp" fields={new Map()} first={['severity']} open={false} active={false} fresh={false} actions={actions} onToggle={nothing} />
    </MantineProvider>,
  );
}

const marks = () => [...document.querySelectorAll('mark')].map((mark) => mark.textContent);

it('puts spaces between the fields of a summary, so that lines can wrap', () => {
  show({ _index: 'a', _id: '1', _source: { '@timestamp': '2026-01-01T00:00:00Z', tenant: 'tenant-1', src_ip: '10.0.0.1', severity: 'info' } });
  expect(document.querySelector('dl')?.textContent.trim()).toBe('severity info tenant tenant-1 src_ip 10.0.0.1');
});

it('marks the matches of the query, and shows these fields first', () => {
  const highlight = { 'host.keyword': ['@firn-mark@web-1@/firn-mark@'], tags: ['@firn-mark@b@/firn-mark@'] };
  const hit = { _index: 'a', _id: '1', _source: { severity: 'info', host: 'Web-1', tags: ['a', 'b'] }, highlight };
  show(hit);
  expect(document.querySelector('dl')?.textContent.trim()).toBe('host Web-1 tags a, b severity info');
  expect(marks()).toEqual(['Web-1', 'b']);
  cleanup();
  // A multi-valued cell shows all values, not only the matching one.
  show(hit, ['tags', 'severity']);
  expect(document.querySelectorAll('[role="gridcell"]')[2]?.textContent).toBe('a, b');
  expect(marks()).toEqual(['b']);
});

it('takes no markup from an event or from its marks', () => {
  const text = '<img src=x onerror="window.hacked=1"> @firn-mark@no@/firn-mark@';
  show({ _index: 'a', _id: '1', _source: { message: text, other: '<b>x</b>' }, highlight: { message: [`${text} @firn-mark@<i>@/firn-mark@`], other: ['@firn-mark@<b>x</b>@/firn-mark@'] } });
  expect(document.querySelector('dl')?.textContent.trim()).toBe(`message ${text} other <b>x</b>`);
  expect(marks()).toEqual(['<b>x</b>']);
  expect(document.querySelector('dl img, dl b, dl i')).toBeNull();
});
