import { Group, NumberInput, Select, Stack, TextInput } from '@mantine/core';
import type { RuleType } from '../../api/detection-rules';
import type { Measure, RuleInput } from './form';

type Setter = <Name extends keyof RuleInput>(name: Name) => (value: RuleInput[Name]) => void;

const TYPES: { value: RuleType; label: string }[] = [
  { value: 'query', label: 'Each event that matches' },
  { value: 'threshold', label: 'Threshold: many events in a window of time' },
  { value: 'absence', label: 'Absence: no event for a time' },
  { value: 'new_value', label: 'New value: what was never there before' },
];

const MEASURES: { value: Measure; label: string }[] = [
  { value: 'count', label: 'Number of events' },
  { value: 'distinct', label: 'Different values of a field' },
  { value: 'sum', label: 'Sum of a field' },
];

const SIGMA: { value: RuleType; label: string } = { value: 'sigma', label: 'Sigma: each record that matches a rule in YAML' };

/** Type of a rule. That of a Sigma rule cannot be changed once it is stored. */
export function TypeField({ input, set, isNew }: { input: RuleInput; set: Setter; isNew: boolean }) {
  return <Select label="Raise an alert for" allowDeselect={false} data={isNew ? [...TYPES, SIGMA] : TYPES} value={input.type} onChange={(type) => set('type')(type as RuleType)} />;
}

/** When a rule with a query raises an alert. */
export function WindowFields({ input, set }: { input: RuleInput; set: Setter }) {
  return (
    <Stack gap="sm">
      {input.type === 'threshold' && (
        <Group grow align="flex-start">
          <TextInput label="Window" description="Such as 30s, 5m or 1h" required value={input.window} onChange={(event) => set('window')(event.currentTarget.value)} />
          <Select label="Measure" description="Of the events with the same values of Group by" allowDeselect={false} data={MEASURES} value={input.measure} onChange={(measure) => set('measure')(measure as Measure)} />
          {input.measure !== 'count' && <TextInput label="Field" description="Whose values are measured" required value={input.field} onChange={(event) => set('field')(event.currentTarget.value)} />}
          <NumberInput label="At least" description="The measure that raises an alert" required min={0} allowDecimal={input.measure !== 'count'} value={input.atLeast} onChange={(atLeast) => set('atLeast')(typeof atLeast === 'number' ? atLeast : '')} />
        </Group>
      )}
      {input.type === 'absence' && <TextInput label="After" description="Time without an event of a value of Group by, such as 10m" required value={input.after} onChange={(event) => set('after')(event.currentTarget.value)} />}
      {input.type === 'new_value' && <TextInput label="Learn for" description="Time from the first event in which values of Group by are learned without alerts, such as 7d" required value={input.learnFor} onChange={(event) => set('learnFor')(event.currentTarget.value)} />}
    </Stack>
  );
}

/** Whether the members of the type are filled in. */
export function isWindowReady({ type, window, measure, field, atLeast, after, groupBy }: RuleInput): boolean {
  switch (type) {
    case 'threshold':
      return window.trim() !== '' && atLeast !== '' && (measure === 'count' || field.trim() !== '');
    case 'absence':
      return after.trim() !== '' && groupBy.length > 0;
    case 'new_value':
      return groupBy.length > 0;
    default:
      return true;
  }
}
