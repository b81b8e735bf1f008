import { Drawer } from '@mantine/core';
import type { ReactNode } from 'react';
import classes from './FieldDrawer.module.css';

interface Props {
  /** The list of fields. */
  children: ReactNode;
  /** Closed it stays on the page: it gives the focus back. */
  opened: boolean;
  onClose: () => void;
}

/** The fields where there is no room for them beside the events. */
export default function FieldDrawer({ children, opened, onClose }: Props) {
  return (
    <Drawer opened={opened} onClose={onClose} size="min(340px, 88vw)" padding={0} title="Fields" closeButtonProps={{ 'aria-label': 'Close' }} classNames={{ header: classes.header, content: classes.content, body: classes.body }}>
      {children}
    </Drawer>
  );
}
