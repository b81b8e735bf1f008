import { useEffect } from 'react';
import { useSession } from './session-context';

/** Sets the title of the browser's tab: the page first, so that narrow tabs tell pages apart. */
export function usePageTitle(page: string): void {
  const { name } = useSession().session;
  useEffect(() => {
    document.title = [page, 'firn', ...(name ? [name] : [])].join(' · ');
  }, [page, name]);
}
