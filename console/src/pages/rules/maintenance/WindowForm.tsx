import { Button, Chip, Group, Input, MultiSelect, NumberInput, Paper, SegmentedControl, Select, SimpleGrid, Stack, Text, TextInput, Title } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useMemo, useState } from 'react';
import { SEVERITIES, type Severity } from '../../../api/alerts';
import { type MaintenanceWindow, putWindow, type Weekday, WEEKDAYS } from '../../../api/maintenance-windows';
import { useFormat } from '../../../app/preferences';
import { Failed } from '../../../components/Failed';
import { suggestedId } from '../form';
import { QueryFields } from '../QueryFields';
import { useRules } from '../use-rules';
import { WEEKDAY_NAMES, whenText } from './describe';
import { windowDefinition, type WindowInput, windowMissing, windowProblems } from './form';

interface Props {
  /** Null for a new window, whose id the form asks for. */
  id: string | null;
  stored: MaintenanceWindow | null;
  initial: WindowInput;
  onSaved: (id: string) => void;
}

type Setter = <Name extends keyof WindowInput>(name: Name) => (value: WindowInput[Name]) => void;
interface Fields {
  input: WindowInput;
  set: Setter;
  problems: ReturnType<typeof windowProblems>;
}

/** Rule of the alerts that firn raises about itself, which only a window that names it suppresses. */
const OWN_RULE = { value: 'firn-channel-failing', label: 'Channel failing (firn itself)' };

const REPEATS = [
  { value: '', label: 'Once' },
  { value: 'day', label: 'Every day' },
  { value: 'week', label: 'Every week' },
  { value: 'month', label: 'Every month' },
];

const STOPS = [
  { value: 'never', label: 'Until it is deleted' },
  { value: 'until', label: 'Until a date' },
  { value: 'count', label: 'A number of times' },
];

/** Form of a maintenance window. If the server refuses the definition, the form shows its error. */
export function WindowForm({ id, stored, initial, onSaved }: Props) {
  const format = useFormat();
  const [input, setInput] = useState(initial);
  const [typedId, setTypedId] = useState<string | null>(null);
  const set: Setter = (name) => (value) => setInput((before) => ({ ...before, [name]: value }));
  const target = id ?? typedId ?? suggestedId(input.title);
  const problems = windowProblems(input);
  const missing = [...windowMissing(input), ...(target.trim() === '' ? ['ID'] : [])];
  const isReady = missing.length === 0 && Object.keys(problems).length === 0;
  const { mutate, isPending, error } = useMutation({
    mutationFn: () => putWindow(target.trim(), windowDefinition(input, stored)),
    onSuccess: () => onSaved(target.trim()),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (isReady) mutate();
  };
  return (
    <form onSubmit={submit}>
      <Stack>
        <Paper withBorder p="md" bg="var(--firn-surface)">
          <Stack gap="sm">
            <SimpleGrid cols={{ base: 1, xs: 2 }} verticalSpacing="sm">
              <TextInput label="Title" required value={input.title} onChange={(event) => set('title')(event.currentTarget.value)} />
              {id === null && (
                <TextInput label="ID" description="Cannot be changed. An existing window with this ID is replaced." inputWrapperOrder={['label', 'input', 'description', 'error']} required value={target} onChange={(event) => setTypedId(event.currentTarget.value)} />
              )}
            </SimpleGrid>
            <When input={input} set={set} problems={problems} />
            <Recurrence input={input} set={set} problems={problems} />
            {isReady && (
              <Text size="sm" c="dimmed" role="status">
                {whenText(windowDefinition(input, stored), format)}
              </Text>
            )}
          </Stack>
        </Paper>
        <Scope input={input} set={set} problems={problems} />
        {error && <Failed title="Maintenance window not saved" error={error} />}
        <Group>
          <Button type="submit" size="sm" loading={isPending} disabled={!isReady}>
            {id === null ? 'Create maintenance window' : 'Save'}
          </Button>
          {missing.length > 0 && (
            <Text size="sm" c="dimmed" role="status">
              Fill in: {missing.join(', ')}
            </Text>
          )}
        </Group>
      </Stack>
    </form>
  );
}

function When({ input, set, problems }: Fields) {
  const zones = useMemo(() => [...new Set(['UTC', input.zone, ...Intl.supportedValuesOf('timeZone')])], [input.zone]);
  return (
    <>
      <SimpleGrid cols={{ base: 1, xs: 2 }} verticalSpacing="sm">
        <TextInput type="datetime-local" label="Start" required value={input.start} onChange={(event) => set('start')(event.currentTarget.value)} />
        <Select label="Time zone" searchable allowDeselect={false} limit={100} data={zones} value={input.zone} onChange={(zone) => set('zone')(zone ?? 'UTC')} />
      </SimpleGrid>
      <SimpleGrid cols={{ base: 1, xs: 2 }} verticalSpacing="sm">
        <Input.Wrapper label="Ends" labelElement="div">
          <div>
            <SegmentedControl
              aria-label="Ends"
              data={[
                { value: 'duration', label: 'After a time' },
                { value: 'end', label: 'At a date' },
              ]}
              value={input.has}
              onChange={(has) => set('has')(has as WindowInput['has'])}
            />
          </div>
        </Input.Wrapper>
        {input.has === 'duration' ? (
          <TextInput label="Length" placeholder="Such as 30m, 4h or 2d" required value={input.duration} error={problems.duration} onChange={(event) => set('duration')(event.currentTarget.value)} />
        ) : (
          <TextInput type="datetime-local" label="End" required value={input.end} error={problems.end} onChange={(event) => set('end')(event.currentTarget.value)} />
        )}
      </SimpleGrid>
    </>
  );
}

function Recurrence({ input, set, problems }: Fields) {
  return (
    <>
      <SimpleGrid cols={{ base: 1, xs: 2 }} verticalSpacing="sm">
        <Select label="Repeats" allowDeselect={false} data={REPEATS} value={input.every} onChange={(every) => set('every')((every ?? '') as WindowInput['every'])} />
        {input.every !== '' && <Select label="Goes on" allowDeselect={false} data={STOPS} value={input.stops} onChange={(stops) => set('stops')(stops as WindowInput['stops'])} />}
      </SimpleGrid>
      {input.every !== '' && input.stops !== 'never' && (
        <SimpleGrid cols={{ base: 1, xs: 2 }} verticalSpacing="sm">
          {input.stops === 'until' ? (
            <TextInput type="datetime-local" label="Last start" description="At the latest" required value={input.until} error={problems.until} onChange={(event) => set('until')(event.currentTarget.value)} />
          ) : (
            <NumberInput label="Number of times" required min={0} max={1_000_000} allowDecimal={false} value={input.count} error={problems.count} onChange={(count) => set('count')(typeof count === 'number' ? count : '')} />
          )}
        </SimpleGrid>
      )}
      {(input.every === 'day' || input.every === 'week') && (
        <Input.Wrapper label="Weekdays" labelElement="div" description={input.every === 'day' ? 'No selection: every day' : 'No selection: the weekday of the start'}>
          <Chip.Group multiple value={input.weekdays} onChange={(weekdays) => set('weekdays')(weekdays as Weekday[])}>
            <Group gap={6} role="group" aria-label="Weekdays" mt={4}>
              {WEEKDAYS.map((day) => (
                <Chip key={day} size="xs" variant="outline" value={day}>
                  {WEEKDAY_NAMES[day]}
                </Chip>
              ))}
            </Group>
          </Chip.Group>
        </Input.Wrapper>
      )}
    </>
  );
}

/** Which alerts the window is for. */
function Scope({ input, set }: Fields) {
  const rules = useRules();
  const options = useMemo(() => {
    const known = Object.entries(rules.data ?? {}).map(([value, { name }]) => ({ value, label: name === value ? name : `${name} (${value})` }));
    const all = [...known, ...(known.some(({ value }) => value === OWN_RULE.value) ? [] : [OWN_RULE])];
    const ids = new Set(all.map(({ value }) => value));
    // Rules that were deleted, or are not loaded yet.
    return [...all, ...input.rules.filter((id) => !ids.has(id)).map((id) => ({ value: id, label: id }))];
  }, [rules.data, input.rules]);
  return (
    <Paper withBorder p="md" bg="var(--firn-surface)">
      <Stack gap="sm">
        <div>
          <Title order={2} size="h5">
            Alerts
          </Title>
          <Text size="sm" c="dimmed">
            The window applies to alerts that meet all of these conditions. They are stored and marked, but neither delivered nor escalated.
          </Text>
        </div>
        <MultiSelect label="Rules" searchable limit={100} hidePickedOptions placeholder={input.rules.length === 0 ? 'All rules' : ''} data={options} value={input.rules} nothingFoundMessage="No rule has this name" error={rules.error ? 'Failed to load the rules' : null} onChange={set('rules')} />
        <SimpleGrid cols={{ base: 1, xs: 2 }} verticalSpacing="sm">
          <TextInput label="Tenant" placeholder="All tenants" value={input.tenant} onChange={(event) => set('tenant')(event.currentTarget.value)} />
          <Select label="Minimum severity" clearable placeholder="Every severity" data={[...SEVERITIES]} value={input.minSeverity} onChange={(severity) => set('minSeverity')(severity as Severity | null)} />
        </SimpleGrid>
        <QueryFields label="Query of the alert" required={false} placeholder="host.name: web*" query={input.query} onChange={set('query')} />
      </Stack>
    </Paper>
  );
}
