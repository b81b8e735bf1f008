// @vitest-environment jsdom
import { MantineProvider } from '@mantine/core';
import { cleanup, render, screen } from '@testing-library/react';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Cardinality } from '../../api/discover';
import type { Field } from '../../api/fields';
import { FieldList, isFound } from './FieldList';
import { IDLE_RUN, LOADING, type Stage } from './run';

const drawn = vi.hoisted(() => ({ rows: 0 }));
vi.mock('./FieldIcon', () => ({
  FieldIcon: () => {
    drawn.rows += 1;
    return null;
  },
}));

beforeEach(() => {
  drawn.rows = 0;
  vi.stubGlobal('matchMedia', () => ({ matches: false, addEventListener: () => {}, removeEventListener: () => {} }));
  // Without a height no row is visible.
  vi.spyOn(HTMLElement.prototype, 'clientHeight', 'get').mockReturnValue(600);
  vi.spyOn(HTMLElement.prototype, 'clientWidth', 'get').mockReturnValue(264);
});

afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

const NAMES = ['c', 'a', 'b'];
const fields: Field[] = NAMES.map((name) => ({ name, type: 'keyword', searchable: true, aggregatable: true, in_use: true }));
const columns: string[] = [];
const first: string[] = [];
const nothing = () => {};

function counted(cardinality: number, documents = 1): Stage<Cardinality> {
  return { ...IDLE_RUN.cardinality, status: 'done', result: { fields: NAMES.map((name) => ({ name, type: 'keyword', cardinality, exact: true, documents })) } };
}

const list = (counts: Stage<Cardinality>, main = first, of = fields, chosen = columns) => (
  <MantineProvider>
    <FieldList
      fields={of}
      error={null}
      counts={counts}
      columns={chosen}
      first={main}
      question={null}
      onFilter={nothing}
      onColumn={nothing}
      onRetry={nothing}
      onGoOn={nothing}
      onBackground={nothing}
    />
  </MantineProvider>
);

const names = () => [...document.querySelectorAll('li button[aria-haspopup]')].map((button) => button.textContent);

it('renders new counts without rendering the rows again', () => {
  const { rerender } = render(list(counted(7)));
  expect(names()).toEqual(['a7', 'b7', 'c7']);
  const { rows } = drawn;
  expect(rows).toBeGreaterThan(0);
  rerender(list({ ...LOADING, result: counted(7).result, stale: true }));
  rerender(list(counted(8)));
  expect(names()).toEqual(['a8', 'b8', 'c8']);
  expect(drawn.rows).toBe(rows);
});

it('marks counts of the previous request', () => {
  const marked = () => [document.querySelector('ul[aria-label=Fields]')?.getAttribute('aria-busy'), document.querySelectorAll('[data-count][data-stale]').length];
  const { rerender } = render(list(counted(7)));
  expect(marked()).toEqual(['false', 0]);
  rerender(list({ ...LOADING, result: counted(7).result, stale: true }));
  expect(marked()).toEqual(['true', 3]);
});

it('lists key fields first, in the given order', () => {
  render(list(counted(7), ['c', 'b', 'not here']));
  expect([...document.querySelectorAll('ul[aria-label=Fields] > li')].map((row) => row.textContent)).toEqual(['Key fields 2', 'c7', 'b7', 'Fields 1', 'a7']);
});

it('lists fields without values in the matching events last', () => {
  render(list(counted(0, 0)));
  expect(screen.getByText(/Empty fields/)).toBeTruthy();
  expect(document.querySelectorAll('li[data-unused]')).toHaveLength(3);
});

it('lists a text field and its keyword sub-field as one, with the values of the keyword', () => {
  const field = (name: string, type: string): Field => ({ name, type, searchable: true, aggregatable: type !== 'text', in_use: true });
  const counts: Stage<Cardinality> = {
    ...counted(0),
    result: { fields: [{ name: 'host.keyword', type: 'keyword', cardinality: 12, exact: true, documents: 40 }, { name: 'level.keyword', type: 'keyword', cardinality: 3, exact: true, documents: 40 }] },
  };
  const both = [field('host', 'text'), field('host.keyword', 'keyword'), field('level', 'text'), field('level.keyword', 'keyword')];
  render(list(counts, first, both, ['level.keyword']));
  expect([...document.querySelectorAll('ul[aria-label=Fields] > li')].map((row) => row.textContent)).toEqual(['Columns 1', 'level3', 'Fields 1', 'host12']);
  expect(screen.getByRole('button', { name: 'Remove column level' })).toBeTruthy();
  expect(screen.getByRole('button', { name: 'Add column host' })).toBeTruthy();
});

it.each([
  ['src_ip', 'source', true],
  ['source.address', 'src', true],
  ['destination.ip', 'dst', true],
  ['dest_port', 'destination', true],
  ['Message', 'mess', true],
  ['src_ip', 'destination', false],
  ['message', 'number', false],
])('%s is found by [%s]: %s', (name, wanted, found) => expect(isFound(name, wanted)).toBe(found));
