import { ActionIcon, Button, Tooltip } from '@mantine/core';
import { IconBellPlus, IconDownload, IconKeyboard, IconShare } from '@tabler/icons-react';
import { memo, useMemo } from 'react';
import { Link } from 'react-router';
import { useSession } from '../../app/session-context';
import { copyText } from '../../components/copy';
import { Menu } from '../../components/Menu';
import { SavedMenu, type SavedProps } from './SavedMenu';
import classes from './Discover.module.css';
import { rulePathOfSearch } from './rule-of-search';

interface Props extends SavedProps {
  /** Query string of a link to the displayed results. */
  link: string;
  /** The same with absolute times; null until they are known. */
  fixedSearch: string | null;
  canExport: boolean;
  onExport: () => void;
  onHelp: () => void;
}

function copyLink(search: string): void {
  const url = new URL(window.location.href);
  url.search = search;
  void copyText(url.href, 'Link');
}

/** Actions on the current search: save, share, alert, export. */
export const Toolbar = memo(function Toolbar({ link, fixedSearch, canExport, onExport, onHelp, ...saved }: Props) {
  return (
    <div className={classes.toolbar}>
      <SavedMenu {...saved} />
      <Menu position="bottom-end">
        <Menu.Target>
          <Button variant="subtle" size="compact-xs" leftSection={<IconShare size={14} aria-hidden />}>
            Share
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item onClick={() => copyLink(link)}>Copy link</Menu.Item>
          <Menu.Item disabled={fixedSearch === null} onClick={() => fixedSearch !== null && copyLink(fixedSearch)}>
            Copy link with fixed times
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <AlertButton search={saved.search} />
      <Button variant="subtle" size="compact-xs" leftSection={<IconDownload size={14} aria-hidden />} disabled={!canExport} onClick={onExport}>
        Export
      </Button>
      <Tooltip label="Keyboard shortcuts (?)">
        <ActionIcon variant="subtle" size={24} aria-label="Keyboard shortcuts" onClick={onHelp}>
          <IconKeyboard size={16} aria-hidden />
        </ActionIcon>
      </Tooltip>
    </div>
  );
});

/** Opens the form of a rule with the query of the search. Rules belong to operators. */
function AlertButton({ search }: { search: string }) {
  const { session } = useSession();
  const path = useMemo(() => rulePathOfSearch(search), [search]);
  if (!session.operator || session.view_as !== null) return null;
  const look = { variant: 'subtle', size: 'compact-xs', leftSection: <IconBellPlus size={14} aria-hidden /> } as const;
  if (path === null) {
    return (
      <Button {...look} disabled title="Enter a query or add a filter">
        Alert on this search
      </Button>
    );
  }
  return (
    <Button {...look} component={Link} to={path}>
      Alert on this search
    </Button>
  );
}
