import { useCallback, useMemo, useRef } from 'react';
import { useSearchParams } from 'react-router';
import { decodeState, type DiscoverState, encodeState } from './state';

export interface UpdateOptions {
  /** Without a step back to what was before: where nothing else is asked. */
  replace?: boolean;
}

export type Update = (patch: Partial<DiscoverState>, options?: UpdateOptions) => void;

/** The state of the page, which is its address, and how to change it. */
export function useDiscoverState(): { state: DiscoverState; problems: string[]; update: Update } {
  const [params, setParams] = useSearchParams();
  const search = params.toString();
  const { state, problems } = useMemo(() => decodeState(search), [search]);
  const latest = useRef({ search, state, setParams });
  if (latest.current.search !== search || latest.current.setParams !== setParams) latest.current = { search, state, setParams };
  const update = useCallback<Update>((patch, { replace = false } = {}) => {
    // What is changed is no longer what the run in the background is about.
    const next = { ...latest.current.state, run: null, ...patch };
    latest.current.state = next;
    latest.current.setParams(new URLSearchParams(encodeState(next)), { replace });
  }, []);
  return { state, problems, update };
}
