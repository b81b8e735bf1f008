import { useRef } from 'react';
import { useLocation } from 'react-router';
import type { Page } from './pages';

/**
 * Returns the link targets of the navigation: the last URL of a page with `keepsAddress`, the plain URL of the page that
 * is open. The URLs live as long as the component: another user or tenant view starts without them.
 */
export function useAddresses(pages: readonly Pick<Page, 'name' | 'keepsAddress'>[]): (name: string) => string {
  const { pathname, search } = useLocation();
  const left = useRef(new Map<string, string>());
  const here = pages.find(({ name }) => pathname === `/${name}`);
  if (here?.keepsAddress) left.current.set(here.name, search);
  return (name) => `/${name}${name === here?.name ? '' : (left.current.get(name) ?? '')}`;
}
