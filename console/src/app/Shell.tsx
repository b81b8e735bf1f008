import { ActionIcon, Button, Text, Tooltip, useComputedColorScheme, useMantineColorScheme } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { IconLogout, IconMoon, IconSun, IconUser } from '@tabler/icons-react';
import { Suspense } from 'react';
import { Link, NavLink, Outlet } from 'react-router';
import { errorText } from '../api/errors';
import { Loading } from '../components/Loading';
import { Menu } from '../components/Menu';
import { PAGES } from './pages';
import { useSession } from './session-context';
import classes from './Shell.module.css';
import { useAddresses } from './use-addresses';

/** Frame of every page: navigation, user menu, color scheme and the tenant view banner. */
export function Shell() {
  const { session } = useSession();
  const addressOf = useAddresses(PAGES);
  const sees = (page: { operatorsOnly?: boolean }) => !page.operatorsOnly || (session.operator && !session.view_as);
  return (
    <div className={classes.shell}>
      <a className={classes.skip} href="#main">
        Skip to content
      </a>
      <header className={classes.header}>
        <Link to="/discover" className={classes.brand}>
          <img src="/app/icon.svg" width={24} height={24} alt="" />
          firn
        </Link>
        <nav className={classes.links} aria-label="Pages">
          {PAGES.filter(sees).map(({ name, label, icon: Icon }) => (
            <NavLink key={name} to={addressOf(name)} className={classes.link} aria-label={label}>
              <Icon size={17} stroke={1.7} aria-hidden />
              <span className={classes.label}>{label}</span>
            </NavLink>
          ))}
        </nav>
        <SchemeButton />
        <UserMenu />
      </header>
      <ViewAsBanner />
      <main id="main" className={classes.main} tabIndex={-1}>
        <Suspense fallback={<Loading />}>
          <Outlet />
        </Suspense>
      </main>
    </div>
  );
}

function SchemeButton() {
  const { setColorScheme } = useMantineColorScheme();
  const dark = useComputedColorScheme('light', { getInitialValueInEffect: false }) === 'dark';
  const label = dark ? 'Light mode' : 'Dark mode';
  return (
    <Tooltip label={label}>
      <ActionIcon variant="transparent" className={classes.button} aria-label={label} onClick={() => setColorScheme(dark ? 'light' : 'dark')}>
        {dark ? <IconSun size={18} aria-hidden /> : <IconMoon size={18} aria-hidden />}
      </ActionIcon>
    </Tooltip>
  );
}

const say = (title: string) => (error: unknown) => notifications.show({ color: 'red', title, message: errorText(error) });

function UserMenu() {
  const { session, signOut } = useSession();
  if (!session.user) return null;
  const { username, full_name: fullName, roles } = session.user;
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button variant="transparent" size="compact-sm" className={classes.button} leftSection={<IconUser size={16} aria-hidden />}>
          {username}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>
          {fullName || username}
          <br />
          {session.tenant ? `tenant ${session.tenant}` : 'operator'} · {roles.join(', ') || 'no roles'}
        </Menu.Label>
        <Menu.Item leftSection={<IconLogout size={16} aria-hidden />} onClick={() => void signOut().catch(say('Sign-out failed'))}>
          Sign out
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

function ViewAsBanner() {
  const { session, viewAs } = useSession();
  if (!session.view_as) return null;
  return (
    <div className={classes.banner} role="status">
      <Text span size="sm" c="inherit">
        Viewing as tenant <b>{session.view_as}</b>. This is audited.
      </Text>
      <Button size="compact-xs" color="dark" onClick={() => void viewAs(null, '').catch(say('Failed to exit the tenant view'))}>
        Exit tenant view
      </Button>
    </div>
  );
}
