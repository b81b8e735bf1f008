import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RecordCounter } from './record-counter';

function count(format: 'csv' | 'ndjson', text: string, size: number): RecordCounter {
  const counter = new RecordCounter(format);
  const bytes = new TextEncoder().encode(text);
  for (let at = 0; at < bytes.length; at += size) counter.add(bytes.subarray(at, at + size));
  return counter;
}

const quoted = (value: string) => `"${value.replaceAll('"', '""')}"`;

describe('the progress of an export', () => {
  it('counts lines of NDJSON', () => {
    expect(count('ndjson', '{"a":"\\n\\""}\n{"a":1}\n{"a"', 3)).toMatchObject({ records: 2, bytes: 25 });
  });

  it('counts records of CSV for any quoted content and any chunks', () => {
    fc.assert(
      fc.property(fc.array(fc.array(fc.string(), { minLength: 1, maxLength: 3 }), { maxLength: 6 }), fc.integer({ min: 1, max: 9 }), (records, size) => {
        const text = ['h', ...records.map((record) => record.map(quoted).join(','))].map((line) => `${line}\r\n`).join('');
        expect(count('csv', text, size).records).toBe(records.length);
      }),
    );
    expect(count('csv', '', 1).records).toBe(0);
  });
});
