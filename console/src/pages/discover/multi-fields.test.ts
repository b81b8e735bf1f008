import { expect, it } from 'vitest';
import type { Field } from '../../api/fields';
import { shownField, shownFields, valueField } from './multi-fields';

const field = (name: string, type: string, more: Partial<Field> = {}): Field => ({ name, type, searchable: true, aggregatable: !type.includes('text'), in_use: true, ...more });

const ALL = [
  field('host', 'text', { in_use: false }),
  field('host.keyword', 'keyword'),
  field('message', 'match_only_text'),
  field('message.keyword', 'keyword', { aggregatable: false }),
  field('body', 'text'),
  field('user', 'keyword'),
  field('user.keyword', 'keyword'),
  field('os.keyword', 'keyword'),
];
const byName = new Map(ALL.map((one) => [one.name, one]));

it('counts and sorts a text field by its keyword sub-field, other fields directly', () => {
  const names = ['host', 'host.keyword', 'message', 'body', 'user', 'os.keyword', 'not there'];
  expect(names.map((name) => valueField(name, byName))).toEqual(['host.keyword', 'host.keyword', 'message', 'body', 'user', 'os.keyword', 'not there']);
});

it('shows the keyword sub-field of a text as that text', () => {
  const names = ['host.keyword', 'host', 'message.keyword', 'user.keyword', 'os.keyword', 'not.keyword'];
  expect(names.map((name) => shownField(name, byName))).toEqual(['host', 'host', 'message.keyword', 'user.keyword', 'os.keyword', 'not.keyword']);
});

it('lists both once, in use if one of them is', () => {
  const shown = shownFields(ALL, byName);
  expect(shown.map(({ name }) => name)).toEqual(['host', 'message', 'message.keyword', 'body', 'user', 'user.keyword', 'os.keyword']);
  expect(shown[0]).toEqual({ ...field('host', 'text'), in_use: true });
  // Unchanged fields are the same objects, so that their rows do not render again.
  expect(shown[3]).toBe(ALL[4]);
});
