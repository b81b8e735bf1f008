import { useCallback, useMemo, useRef } from 'react';
import { useSearchParams } from 'react-router';
import { decodeState, type DiscoverState, encodeState } from './state';

export interface UpdateOptions {
  /** Replaces the history entry. For changes that do not change the request. */
  replace?: boolean;
  /** Called with the new state before the URL changes, because that renders the page. */
  before?: (next: DiscoverState) => void;
}

export type Update = (patch: Partial<DiscoverState>, options?: UpdateOptions) => void;

/** State that does not affect a background run: if only this changes, the run stays. */
const BESIDE_RUN: (keyof DiscoverState)[] = ['saved', 'live', 'refreshMs'];

export function patched(state: DiscoverState, patch: Partial<DiscoverState>): DiscoverState {
  const keeps = (Object.keys(patch) as (keyof DiscoverState)[]).every((name) => BESIDE_RUN.includes(name));
  return { ...state, ...(!keeps && { run: null }), ...patch };
}

/** Returns `next` with the unchanged parts of `before`, so that memoized components do not render again. */
export function withKnownParts(before: DiscoverState, next: DiscoverState): DiscoverState {
  const parts = Object.entries(next).map(([name, part]) => {
    const known = before[name as keyof DiscoverState];
    return [name, JSON.stringify(known) === JSON.stringify(part) ? known : part];
  });
  return Object.fromEntries(parts) as DiscoverState;
}

/** Returns the state of the page, which is stored in the URL, and a function that updates it. */
export function useDiscoverState(): { state: DiscoverState; problems: string[]; update: Update } {
  const [params, setParams] = useSearchParams();
  const search = params.toString();
  const drawn = useRef<DiscoverState | null>(null);
  const { state, problems } = useMemo(() => {
    const { state, problems } = decodeState(search);
    return { state: drawn.current ? withKnownParts(drawn.current, state) : state, problems };
  }, [search]);
  drawn.current = state;
  const latest = useRef({ search, state, setParams });
  if (latest.current.search !== search || latest.current.setParams !== setParams) latest.current = { search, state, setParams };
  const update = useCallback<Update>((patch, { replace = false, before } = {}) => {
    const next = patched(latest.current.state, patch);
    latest.current.state = next;
    before?.(next);
    latest.current.setParams(new URLSearchParams(encodeState(next)), { replace });
  }, []);
  return { state, problems, update };
}
