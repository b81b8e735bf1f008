import { describe, expect, it } from 'vitest';
import { EMPTY_STATE } from './state';
import { patched } from './use-discover-state';

describe('a run in the background', () => {
  const state = { ...EMPTY_STATE, text: 'a', run: 'r' };

  it('is shown on when what it is about stays', () => {
    for (const patch of [{ saved: 's' }, { live: true }, { refreshMs: 5000 }]) expect(patched(state, patch).run).toBe('r');
  });

  it('is left when something else is asked', () => {
    for (const patch of [{ text: 'b' }, { saved: 's', text: 'b' }, { run: null }]) expect(patched(state, patch).run).toBeNull();
    expect(patched(state, { run: 'other' }).run).toBe('other');
  });
});
