import { Button, Group, Paper, SimpleGrid, Stack, Text, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useMemo, useState } from 'react';
import { DEFAULTS_ID, putTenant, type Tenant } from '../../api/tenants';
import { useFormat } from '../../app/preferences';
import { Failed } from '../../components/Failed';
import { problems, QUOTA_FIELDS, type SettingsForm, toForm, toSettings } from './quotas';

/** Settings form of a tenant. Empty fields are inherited; their placeholder shows the inherited value. */
export function QuotaForm({ tenant }: { tenant: Tenant }) {
  const format = useFormat();
  const client = useQueryClient();
  const declared = useMemo(() => toForm(tenant), [tenant]);
  const [form, setForm] = useState(declared);
  const found = problems(form);
  const changed = JSON.stringify(form) !== JSON.stringify(declared);
  const { mutate, isPending, error } = useMutation({
    mutationFn: () => putTenant(tenant.id, toSettings(form)),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ['tenants'] });
      notifications.show({ color: 'green', message: `Saved. Applies from the next request on.` });
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (Object.keys(found).length === 0) mutate();
  };
  const field = (name: keyof SettingsForm, label: string, help: string, inherited?: string) => (
    <TextInput
      key={name}
      label={label}
      description={help}
      placeholder={inherited}
      value={form[name]}
      error={found[name]}
      onChange={(event) => setForm({ ...form, [name]: event.currentTarget.value })}
    />
  );
  const effective = tenant.id === DEFAULTS_ID ? undefined : tenant.effective;
  return (
    <Paper component="form" withBorder p="md" maw={860} bg="var(--firn-surface)" onSubmit={submit}>
      <Stack>
        <SimpleGrid cols={{ base: 1, sm: 2 }}>
          {tenant.id !== DEFAULTS_ID && field('display_name', 'Display name', 'Shown next to the ID')}
          {field('retention', 'Retention', 'Deletes older events, such as 90d', effective?.retention ?? 'no limit')}
          {QUOTA_FIELDS.map(({ name, label, help, kind }) => {
            const inherited = effective?.quotas[name];
            const shown = inherited === undefined ? 'no limit' : kind === 'bytes' ? format.bytes(inherited) : format.number(inherited);
            return field(name, label, help, shown);
          })}
        </SimpleGrid>
        {error && <Failed error={error} compact />}
        <Group>
          <Button type="submit" loading={isPending} disabled={!changed || Object.keys(found).length > 0}>
            Save
          </Button>
          <Button variant="default" disabled={!changed} onClick={() => setForm(declared)}>
            Discard changes
          </Button>
          <Text size="xs" c="dimmed">
            Empty fields are inherited.
          </Text>
        </Group>
      </Stack>
    </Paper>
  );
}
