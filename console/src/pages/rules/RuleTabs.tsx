import { Tabs } from '@mantine/core';
import type { ReactNode } from 'react';
import { useNavigate } from 'react-router';
import { WINDOWS_PATH } from './maintenance/paths';

const PATHS = { rules: '/rules', maintenance: WINDOWS_PATH };

/** Lists of the page Rules. */
export function RuleTabs({ value, children }: { value: keyof typeof PATHS; children: ReactNode }) {
  const navigate = useNavigate();
  return (
    <Tabs value={value} onChange={(next) => void navigate(PATHS[(next ?? 'rules') as keyof typeof PATHS])}>
      <Tabs.List mb="md">
        <Tabs.Tab value="rules">Rules</Tabs.Tab>
        <Tabs.Tab value="maintenance">Maintenance windows</Tabs.Tab>
      </Tabs.List>
      <Tabs.Panel value={value}>{children}</Tabs.Panel>
    </Tabs>
  );
}
