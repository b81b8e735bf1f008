import { Drawer } from '@mantine/core';
import type { ReactNode } from 'react';
import classes from './FieldDrawer.module.css';

interface Props {
  /** Field list. */
  children: ReactNode;
  /** A closed drawer stays mounted, so that it can return the focus. */
  opened: boolean;
  onClose: () => void;
}

/** Drawer with the field list, for narrow windows. */
export default function FieldDrawer({ children, opened, onClose }: Props) {
  return (
    <Drawer opened={opened} onClose={onClose} size="min(340px, 88vw)" padding={0} title="Fields" closeButtonProps={{ 'aria-label': 'Close' }} classNames={{ header: classes.header, content: classes.content, body: classes.body }}>
      {children}
    </Drawer>
  );
}
