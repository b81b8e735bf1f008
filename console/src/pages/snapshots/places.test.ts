import { expect, test } from 'vitest';
import { isPlaceComplete, isReadonly, placeOf, placeSettings } from './places';

test('only filled fields are sent', () => {
  expect(placeSettings('s3', { bucket: ' events ', base_path: '', region: 'eu-central-1' }, false)).toEqual({ bucket: 'events', region: 'eu-central-1' });
  expect(placeSettings('fs', { location: 'a', bucket: 'of another type' }, true)).toEqual({ location: 'a', readonly: true });
});

test('required fields have to be filled', () => {
  expect(isPlaceComplete('s3', { bucket: ' ' })).toBe(false);
  expect(isPlaceComplete('s3', { bucket: 'b' })).toBe(true);
  expect(isPlaceComplete('azure', { bucket: 'b' })).toBe(false);
  expect(isPlaceComplete('no such type', {})).toBe(false);
});

test('the location of each type is one line', () => {
  expect(placeOf({ settings: { bucket: 'events', base_path: 'firn/a' } })).toBe('events/firn/a');
  expect(placeOf({ settings: { container: 'c', base_path: '' } })).toBe('c');
  expect(placeOf({ settings: {} })).toBe('');
});

test('a text setting counts as a boolean', () => {
  expect(isReadonly({ type: 'fs', settings: { readonly: 'true' } })).toBe(true);
  expect(isReadonly({ type: 'fs', settings: { readonly: false } })).toBe(false);
  expect(isReadonly({ type: 'url', settings: {} })).toBe(true);
});
