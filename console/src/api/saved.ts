import { request } from './request';

export type SavedType = 'search' | 'dashboard';

/** Saved search or dashboard without its state. */
export interface SavedEntry {
  type: SavedType;
  id: string;
  title: string;
  description?: string | null;
  updated_ms: number;
  updated_by?: string | null;
  version: number;
  tenant: string | null;
}

export interface Saved<State> extends SavedEntry {
  state: State;
}

interface Body<State> {
  title: string;
  description: string;
  state: State;
}

/** State of a saved search: the query string of its URL. */
export interface SavedSearchState {
  search: string;
}

const path = (type: SavedType, id: string) => `/_firn/saved/${type}/${encodeURIComponent(id)}`;

export const fetchSavedList = async (type: SavedType, signal?: AbortSignal): Promise<SavedEntry[]> =>
  (await request<{ saved: SavedEntry[] }>('/_firn/saved', { query: { type }, ...(signal && { signal }) })).saved;

export const fetchSaved = <State>(type: SavedType, id: string, signal?: AbortSignal) => request<Saved<State>>(path(type, id), { ...(signal && { signal }) });

export const createSaved = <State>(type: SavedType, body: Body<State>) => request<Saved<State>>(`/_firn/saved/${type}`, { method: 'POST', body });

/** Fails with `version_conflict` if another user has changed the object meanwhile. */
export const updateSaved = <State>(type: SavedType, id: string, version: number, body: Body<State>) =>
  request<Saved<State>>(path(type, id), { method: 'PUT', body, query: { version } });

export const deleteSaved = (type: SavedType, id: string) => request<void>(path(type, id), { method: 'DELETE' });
