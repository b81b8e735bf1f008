import { ActionIcon, Button, Menu, Tooltip } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { IconDownload, IconKeyboard, IconShare } from '@tabler/icons-react';
import { memo } from 'react';
import { SavedMenu, type SavedProps } from './SavedMenu';
import classes from './Discover.module.css';

interface Props extends SavedProps {
  /** What a link to this very answer says. */
  link: string;
  /** The same with instants instead of times from now; null as long as they are not known. */
  fixedSearch: string | null;
  canExport: boolean;
  onExport: () => void;
  onHelp: () => void;
}

function copyLink(search: string): void {
  const url = new URL(window.location.href);
  url.search = search;
  const shown = navigator.clipboard.writeText(url.href).then(
    () => notifications.show({ message: 'The link is copied', autoClose: 1500 }),
    () => notifications.show({ color: 'red', message: 'The browser does not let the link be copied: take it from the address bar' }),
  );
  void shown;
}

/** What can be done with the search as it is: keep it, share it, export its events. */
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
            Copy link with these very times
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <Button variant="subtle" size="compact-xs" leftSection={<IconDownload size={14} aria-hidden />} disabled={!canExport} onClick={onExport}>
        Export
      </Button>
      <Tooltip label="Keys (?)">
        <ActionIcon variant="subtle" size={24} aria-label="Keys" onClick={onHelp}>
          <IconKeyboard size={16} aria-hidden />
        </ActionIcon>
      </Tooltip>
    </div>
  );
});
