import type { Icon } from '@tabler/icons-react';
import { IconActivity, IconBell, IconCamera, IconCompass, IconDatabase, IconLayoutDashboard, IconListCheck, IconPlayerPlay, IconRoute, IconShieldSearch, IconUsers } from '@tabler/icons-react';
import { type ComponentType, lazy, type LazyExoticComponent } from 'react';

export interface Page {
  /** First part of the path below /app, and the folder in `pages/`. */
  name: string;
  label: string;
  icon: Icon;
  /** Hidden from tenant users. The server refuses their requests anyway. */
  operatorsOnly?: boolean;
  /** Its URL holds the user's work: the navigation link restores it. */
  keepsAddress?: boolean;
  Component: LazyExoticComponent<ComponentType>;
}

const modules = import.meta.glob<{ default: ComponentType }>(['../pages/*/index.tsx', '!../pages/sign-in/index.tsx']);

const load = (name: string) => modules[`../pages/${name}/index.tsx`];

/** Loads the page of the current URL at once, in parallel with the session request. */
const named = load(/^\/app\/([^/]+)/.exec(globalThis.location?.pathname ?? '')?.[1] ?? 'discover');
// A failure is handled where the page renders.
named?.().catch(() => undefined);

/** Pages in navigation order. Each is loaded when it is first opened. */
export const PAGES: Page[] = (
  [
    { name: 'discover', label: 'Discover', icon: IconCompass, keepsAddress: true },
    { name: 'dashboard', label: 'Dashboard', icon: IconLayoutDashboard, keepsAddress: true },
    { name: 'alerts', label: 'Alerts', icon: IconBell, keepsAddress: true },
    { name: 'rules', label: 'Rules', icon: IconShieldSearch, operatorsOnly: true },
    { name: 'indices', label: 'Indices', icon: IconDatabase },
    { name: 'pipelines', label: 'Pipelines', icon: IconRoute, operatorsOnly: true },
    { name: 'snapshots', label: 'Snapshots', icon: IconCamera, operatorsOnly: true },
    { name: 'tasks', label: 'Tasks', icon: IconListCheck, operatorsOnly: true },
    { name: 'queries', label: 'Activity', icon: IconActivity, operatorsOnly: true },
    { name: 'tenants', label: 'Tenants', icon: IconUsers, operatorsOnly: true },
    { name: 'start', label: 'Send events', icon: IconPlayerPlay },
  ] satisfies Omit<Page, 'Component'>[]
).flatMap((page) => {
  const loader = load(page.name);
  return loader ? [{ ...page, Component: lazy(loader) }] : [];
});
