import { useCallback, useMemo, useRef } from 'react';
import { useSearchParams } from 'react-router';
import { decodeState, type DiscoverState, encodeState } from './state';

export interface UpdateOptions {
  /** Without a step back to what was before: where nothing else is asked. */
  replace?: boolean;
}

/** The state as it will be. */
export type Update = (patch: Partial<DiscoverState>, options?: UpdateOptions) => DiscoverState;

/** What a run in the background is not about: it is kept where nothing else changes. */
const BESIDE_RUN: (keyof DiscoverState)[] = ['saved', 'live', 'refreshMs'];

export function patched(state: DiscoverState, patch: Partial<DiscoverState>): DiscoverState {
  const keeps = (Object.keys(patch) as (keyof DiscoverState)[]).every((name) => BESIDE_RUN.includes(name));
  return { ...state, ...(!keeps && { run: null }), ...patch };
}

/** The state of the page, which is its address, and how to change it. */
export function useDiscoverState(): { state: DiscoverState; problems: string[]; update: Update } {
  const [params, setParams] = useSearchParams();
  const search = params.toString();
  const { state, problems } = useMemo(() => decodeState(search), [search]);
  const latest = useRef({ search, state, setParams });
  if (latest.current.search !== search || latest.current.setParams !== setParams) latest.current = { search, state, setParams };
  const update = useCallback<Update>((patch, { replace = false } = {}) => {
    const next = patched(latest.current.state, patch);
    latest.current.state = next;
    latest.current.setParams(new URLSearchParams(encodeState(next)), { replace });
    return next;
  }, []);
  return { state, problems, update };
}
