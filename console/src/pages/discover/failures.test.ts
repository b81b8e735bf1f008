import { expect, it } from 'vitest';
import { ApiError } from '../../api/errors';
import { failuresOf, queryErrorText } from './failures';

const NOW = Date.UTC(2026, 10, 22);
const DAY = { from: 'now-24h', to: 'now' };
const refused = (reason: string, detail = {}) => new ApiError(reason, 400, 'parsing_exception', { reason, ...detail });
const of = (failure: unknown, range = DAY) => failuresOf(failure, range, NOW, 'UTC');

it('shows errors of the time range at the time picker', () => {
  const unread = refused('failed to parse date field [2026-13-45] with format [strict_date_optional_time||epoch_millis]');
  expect(of(unread, { from: '2026-13-45', to: 'now' })).toEqual({ query: null, time: unread.message, page: null });
  const reversed = refused('[from] of [time] must not be after [to], found [1795376903780] and [1794772103780]');
  expect(of(reversed, { from: 'now', to: 'now-7d' })).toEqual({ query: null, time: 'Start must be before end', page: null });
});

it('shows errors of the query at the query bar, also about its dates', () => {
  const placed = refused('expected a value', { position: { start: 3, end: 4 } });
  expect(of(placed, { from: 'now', to: 'now-7d' }).query).toBe(placed);
  const date = refused('unit [x] not supported for date math [x]');
  expect(of(date)).toEqual({ query: date, time: null, page: null });
  const other = refused('no such field');
  expect(of(other, { from: '2026', to: 'now' }).query).toBe(other);
});

it('shows other errors for the page', () => {
  const away = new ApiError('firn cannot be reached', 0, 'unreachable');
  expect(of(away)).toEqual({ query: null, time: null, page: away });
  const broken = new Error('x');
  expect(of(broken).page).toBe(broken);
  expect(of(null)).toEqual({ query: null, time: null, page: null });
});

it('puts the column first in syntax errors of KQL', () => {
  const check = (message: string, text: string) => expect(queryErrorText(message)).toBe(text);
  check('line 1:14: Expected AND, OR or end of input but ""x"" found', 'Column 14: expected AND, OR or end of input, found "x"');
  check('line 1:5: Expected value or ( but ")" found', 'Column 5: expected value or (, found ")"');
  check('line 2:3: Expected value but end of input found', 'Line 2, column 3: expected value, found end of input');
  check('no such field', 'no such field');
});
