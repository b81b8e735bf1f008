import { IconCopy, IconFilterMinus, IconFilterPlus } from '@tabler/icons-react';
import { type KeyboardEvent, type MouseEvent, type ReactNode, useRef, useState } from 'react';
import { Menu } from '../../components/Menu';
import { textOf } from '../../lib/event-fields';
import { type EventActions, scalarOf } from './EventRow';

interface Props {
  name: string;
  value: unknown;
  actions: EventActions;
  className: string | undefined;
  /** Displayed value. */
  children: ReactNode;
}

/** Value with a menu of actions, opened by click or Enter. Its text stays selectable. */
export function ValueMenu({ name, value, actions, className, children }: Props) {
  const [open, setOpen] = useState(false);
  const selecting = useRef(false);
  const scalar = scalarOf(value);
  // Selecting part of the text does not open the menu.
  const click = ({ currentTarget, detail }: MouseEvent<HTMLElement>) => {
    const selection = window.getSelection();
    selecting.current = detail > 0 && selection !== null && !selection.isCollapsed && selection.containsNode(currentTarget, true);
  };
  const press = (event: KeyboardEvent<HTMLElement>) => {
    if (event.key !== 'Enter' && event.key !== ' ') return;
    event.preventDefault();
    event.currentTarget.click();
  };
  return (
    <Menu position="bottom-start" opened={open} onChange={(open) => setOpen(open && !selecting.current)}>
      <Menu.Target>
        <span role="button" tabIndex={0} dir="auto" className={className} {...(textOf(value, 100).trim() === '' && { 'aria-label': `${name}: empty` })} onClick={click} onKeyDown={press}>
          {children}
        </span>
      </Menu.Target>
      <Menu.Dropdown>
        {scalar !== null && (
          <>
            <Menu.Item leftSection={<IconFilterPlus size={14} aria-hidden />} onClick={() => actions.onFilter({ op: 'is', field: name, value: scalar }, false)}>
              Include
            </Menu.Item>
            <Menu.Item leftSection={<IconFilterMinus size={14} aria-hidden />} onClick={() => actions.onFilter({ op: 'is', field: name, value: scalar }, true)}>
              Exclude
            </Menu.Item>
          </>
        )}
        <Menu.Item leftSection={<IconCopy size={14} aria-hidden />} onClick={() => actions.onCopy(textOf(value), name)}>
          Copy
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
