import { Menu as MantineMenu, type MenuProps } from '@mantine/core';
import { useState } from 'react';
import { useGiveBack } from './return-focus';

/** Mantine's menu, but a click outside keeps the focus on the clicked element. */
export function Menu({ opened, onChange, ...others }: MenuProps) {
  const [own, setOwn] = useState(false);
  const open = opened ?? own;
  useGiveBack(open);
  const change = (next: boolean) => {
    setOwn(next);
    onChange?.(next);
  };
  return <MantineMenu {...others} opened={open} onChange={change} returnFocus={false} />;
}

Menu.Target = MantineMenu.Target;
Menu.Dropdown = MantineMenu.Dropdown;
Menu.Label = MantineMenu.Label;
Menu.Item = MantineMenu.Item;
Menu.Divider = MantineMenu.Divider;
