import { Popover as MantinePopover, type PopoverProps } from '@mantine/core';
import { useGiveBack } from './return-focus';

type Props = Omit<PopoverProps, 'returnFocus' | 'trapFocus'> & { opened: boolean };

/**
 * Mantine's popover. It traps the focus and returns it to the opener, but a click outside keeps the focus on the
 * clicked element.
 */
export function Popover(props: Props) {
  useGiveBack(props.opened);
  return <MantinePopover {...props} trapFocus returnFocus={false} />;
}

Popover.Target = MantinePopover.Target;
Popover.Dropdown = MantinePopover.Dropdown;
