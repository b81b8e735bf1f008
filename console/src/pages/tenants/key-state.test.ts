import { describe, expect, it } from 'vitest';
import { keyState } from './key-state';

describe('keyState', () => {
  it('is active until a key expires or is invalidated', () => {
    expect(keyState({ invalidated: false }, 10)).toBe('active');
    expect(keyState({ invalidated: false, expiration: 11 }, 10)).toBe('active');
    expect(keyState({ invalidated: false, expiration: 10 }, 10)).toBe('expired');
    expect(keyState({ invalidated: true, expiration: 10 }, 10)).toBe('invalidated');
  });
});
