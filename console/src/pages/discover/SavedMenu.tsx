import { Button } from '@mantine/core';
import { IconBookmark } from '@tabler/icons-react';
import { lazy, memo, useState } from 'react';
import { Part } from '../../components/Part';
import { Popover } from '../../components/Popover';

const SavedSearches = lazy(() => import('./SavedSearches'));

export interface SavedProps {
  /** The query string that asks for all that is shown. */
  search: string;
  /** The saved search that this began with. */
  saved: string | null;
  /** Opens one: its query string, with its id. */
  onOpen: (search: string, id: string) => void;
  /** It was saved as this one; null: the one it began with is gone. */
  onSaved: (id: string | null) => void;
}

/** Searches that were kept: to open, and to keep this one. */
export const SavedMenu = memo(function SavedMenu(props: SavedProps) {
  const [open, setOpen] = useState(false);
  return (
    <Popover opened={open} onChange={setOpen} position="bottom-end" width={380}>
      <Popover.Target>
        <Button variant="subtle" size="compact-xs" leftSection={<IconBookmark size={14} aria-hidden />} aria-haspopup="dialog" onClick={() => setOpen(!open)}>
          Saved
        </Button>
      </Popover.Target>
      <Popover.Dropdown p="sm" aria-label="Saved searches">
        {open && (
          <Part lost="The saved searches are not there">
            <SavedSearches {...props} close={() => setOpen(false)} />
          </Part>
        )}
      </Popover.Dropdown>
    </Popover>
  );
});
