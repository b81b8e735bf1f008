// @vitest-environment jsdom
import { act, cleanup, renderHook } from '@testing-library/react';
import { createElement, type ReactNode } from 'react';
import { BrowserRouter } from 'react-router';
import { afterEach, describe, expect, it } from 'vitest';
import { decodeState, EMPTY_STATE, encodeState } from './state';
import { patched, useDiscoverState, withKnownParts } from './use-discover-state';

afterEach(cleanup);

describe('a background run', () => {
  const state = { ...EMPTY_STATE, text: 'a', run: 'r' };

  it('stays when the request does not change', () => {
    for (const patch of [{ saved: 's' }, { live: true }, { refreshMs: 5000 }]) expect(patched(state, patch).run).toBe('r');
  });

  it('is dropped when the request changes', () => {
    for (const patch of [{ text: 'b' }, { saved: 's', text: 'b' }, { run: null }]) expect(patched(state, patch).run).toBeNull();
    expect(patched(state, { run: 'other' }).run).toBe('other');
  });
});

describe('the state of the page', () => {
  const wrapper = ({ children }: { children: ReactNode }) => createElement(BrowserRouter, { useTransitions: false, children });

  it('keeps the identity of unchanged parts', () => {
    const before = decodeState(encodeState({ ...EMPTY_STATE, columns: [{ name: 'a' }], filters: [{ op: 'exists', field: 'b' }] })).state;
    const other = decodeState(encodeState({ ...before, text: 'c', sort: [{ field: 'd', desc: true }] })).state;
    const next = withKnownParts(before, other);
    expect(next).toEqual(other);
    expect(next.columns).toBe(before.columns);
    expect(next.filters).toBe(before.filters);
    expect(next.range).toBe(before.range);
    expect(next.sort).not.toBe(before.sort);

    const { result } = renderHook(() => useDiscoverState(), { wrapper });
    const { columns, range } = result.current.state;
    act(() => result.current.update({ text: 'e' }));
    expect(result.current.state.text).toBe('e');
    expect(result.current.state.columns).toBe(columns);
    expect(result.current.state.range).toBe(range);
  });

  it('is reported before the URL changes, and so before anything renders', () => {
    const { result } = renderHook(() => useDiscoverState(), { wrapper });
    const told: string[] = [];
    act(() => result.current.update({ text: 'asked' }, { before: (next) => told.push(`${next.text} ${window.location.search.includes('asked')}`) }));
    expect(told).toEqual(['asked false']);
    expect(window.location.search).toContain('asked');
  });
});
