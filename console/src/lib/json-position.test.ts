import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { jsonErrorOffset } from './json-position';

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

describe('jsonErrorOffset', () => {
  it('finds the position', () => {
    for (const [text, offset] of [
      ['{"a": x}', 6],
      ['{"a": 1,}', 8],
      ['[1 2]', 3],
      ['{"a" 1}', 5],
      ['', 0],
      ['{"a": [1, {"b": "\n"}]}', 16],
      ['{} x', 3],
    ] as const) {
      expect(jsonErrorOffset(text)).toBe(offset);
    }
  });

  it('agrees with JSON.parse on validity', () => {
    fc.assert(fc.property(fc.json({ maxDepth: 5 }), (text) => void expect(jsonErrorOffset(text)).toBeNull()));
    const broken = fc.tuple(fc.json(), fc.nat(), fc.constantFrom('', ',', '"', '}', ']', ':', '0', '\\', ' ', '-', 'e')).map(([text, seed, put]) => {
      const at = seed % (text.length + 1);
      return text.slice(0, at) + put + text.slice(at + 1);
    });
    fc.assert(
      fc.property(broken, (text) => void expect(jsonErrorOffset(text) === null).toBe(isJson(text))),
      { numRuns: 2000 },
    );
  });

  it('handles deep nesting', () => {
    expect(jsonErrorOffset('['.repeat(100_000))).toBe(100_000);
  });
});
