import { useRef } from 'react';
import { useLocation } from 'react-router';
import type { Page } from './pages';

/**
 * Where the navigation leads: to a page as it was left, if it keeps its address; from the page itself to its beginning.
 * Kept as long as the window shows the same person's view: what one has asked is nothing for the next.
 */
export function useAddresses(pages: readonly Pick<Page, 'name' | 'keepsAddress'>[]): (name: string) => string {
  const { pathname, search } = useLocation();
  const left = useRef(new Map<string, string>());
  const here = pages.find(({ name }) => pathname === `/${name}`);
  if (here?.keepsAddress) left.current.set(here.name, search);
  return (name) => `/${name}${name === here?.name ? '' : (left.current.get(name) ?? '')}`;
}
