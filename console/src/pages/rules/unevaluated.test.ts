import { expect, it } from 'vitest';
import { addUnevaluated, unevaluatedText } from './unevaluated';

it('adds the events of several answers by reason', () => {
  const first = { events: 3, reasons: [{ reason: 'no record', events: 3 }] };
  const all = addUnevaluated(addUnevaluated(first, undefined), { events: 3, reasons: [{ reason: 'no pack', events: 1 }, { reason: 'no record', events: 2 }] });
  expect(unevaluatedText(all, String)).toBe('; 6 events could not be evaluated: no record (5), no pack (1)');
  expect(first.reasons).toEqual([{ reason: 'no record', events: 3 }]);
  expect(unevaluatedText(undefined, String) + unevaluatedText({ events: 0, reasons: [] }, String)).toBe('');
});
