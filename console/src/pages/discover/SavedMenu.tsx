import { Button } from '@mantine/core';
import { IconBookmark } from '@tabler/icons-react';
import { lazy, memo, useState } from 'react';
import { Part } from '../../components/Part';
import { Popover } from '../../components/Popover';

const SavedSearches = lazy(() => import('./SavedSearches'));

export interface SavedProps {
  /** Query string of the current search. */
  search: string;
  /** Saved search that the page was opened from. */
  saved: string | null;
  /** Opens a saved search by its query string and id. */
  onOpen: (search: string, id: string) => void;
  /** Called with the id after saving; null after deleting the current one. */
  onSaved: (id: string | null) => void;
}

/** Menu of saved searches: open one, or save the current search. */
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
          <Part lost="Failed to load the saved searches">
            <SavedSearches {...props} close={() => setOpen(false)} />
          </Part>
        )}
      </Popover.Dropdown>
    </Popover>
  );
});
