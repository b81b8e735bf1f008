import type { Icon } from '@tabler/icons-react';
import { IconActivity, IconCamera, IconCompass, IconDatabase, IconLayoutDashboard, IconListCheck, IconPlayerPlay, IconUsers } from '@tabler/icons-react';
import { type ComponentType, lazy, type LazyExoticComponent } from 'react';

export interface Page {
  /** First part of the address below /app, and the folder in `pages/`. */
  name: string;
  label: string;
  icon: Icon;
  /** Not shown to the users of a tenant. The server refuses them too; this only spares them the door. */
  operatorsOnly?: boolean;
  /** Its address is work: the navigation leads back to it. */
  keepsAddress?: boolean;
  Component: LazyExoticComponent<ComponentType>;
}

const modules = import.meta.glob<{ default: ComponentType }>(['../pages/*/index.tsx', '!../pages/sign-in/index.tsx']);

const load = (name: string) => modules[`../pages/${name}/index.tsx`];

/** The page that the address names is fetched at once, while the server is asked who is signed in. */
const named = load(/^\/app\/([^/]+)/.exec(globalThis.location?.pathname ?? '')?.[1] ?? 'discover');
// A failure is met, and shown, where the page is drawn.
named?.().catch(() => undefined);

/** In the order of the navigation. Each page is loaded when it is first opened. */
export const PAGES: Page[] = (
  [
    { name: 'discover', label: 'Discover', icon: IconCompass, keepsAddress: true },
    { name: 'dashboard', label: 'Dashboard', icon: IconLayoutDashboard, keepsAddress: true },
    { name: 'indices', label: 'Indices', icon: IconDatabase },
    { name: 'snapshots', label: 'Snapshots', icon: IconCamera, operatorsOnly: true },
    { name: 'tasks', label: 'Tasks', icon: IconListCheck, operatorsOnly: true },
    { name: 'queries', label: 'Queries', icon: IconActivity, operatorsOnly: true },
    { name: 'tenants', label: 'Tenants', icon: IconUsers, operatorsOnly: true },
    { name: 'start', label: 'Send events', icon: IconPlayerPlay },
  ] satisfies Omit<Page, 'Component'>[]
).flatMap((page) => {
  const loader = load(page.name);
  return loader ? [{ ...page, Component: lazy(loader) }] : [];
});
