import { Anchor, Box, Breadcrumbs, Group, Text, Title } from '@mantine/core';
import type { ReactNode } from 'react';
import { Link } from 'react-router';
import { usePageTitle } from '../app/page-title';

interface Props {
  title: string;
  /** One-line description of the page. */
  about?: string;
  /** Buttons next to the title. */
  actions?: ReactNode;
  /** Breadcrumb of a detail page: its list, and the name of the item. */
  within?: { list: string; to: string; name: string };
  children: ReactNode;
}

/** Layout of every page but Discover: title, actions, breadcrumb and margins. */
export function PageFrame({ title, about, actions, within, children }: Props) {
  usePageTitle(title);
  return (
    <Box p="md" maw={1600} mx="auto">
      <Group justify="space-between" align="flex-start" mb="md">
        <div>
          <Title order={1} size="h3">
            {title}
          </Title>
          {about && (
            <Text size="sm" c="dimmed">
              {about}
            </Text>
          )}
        </div>
        <Group gap="xs">{actions}</Group>
      </Group>
      {within && (
        <Breadcrumbs mb="sm">
          <Anchor component={Link} to={within.to} size="sm">
            {within.list}
          </Anchor>
          <Text size="sm">{within.name}</Text>
        </Breadcrumbs>
      )}
      {children}
    </Box>
  );
}
