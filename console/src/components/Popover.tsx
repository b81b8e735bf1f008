import { Popover as MantinePopover, type PopoverProps } from '@mantine/core';
import { useGiveBack } from './return-focus';

type Props = Omit<PopoverProps, 'returnFocus' | 'trapFocus'> & { opened: boolean };

/** Mantine's popover with the focus in it, which it gives back: but who leaves it by a click elsewhere has the focus there. */
export function Popover(props: Props) {
  useGiveBack(props.opened);
  return <MantinePopover {...props} trapFocus returnFocus={false} />;
}

Popover.Target = MantinePopover.Target;
Popover.Dropdown = MantinePopover.Dropdown;
