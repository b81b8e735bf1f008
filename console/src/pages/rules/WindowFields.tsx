import { NumberInput, Select, SimpleGrid, Stack, Text, TextInput } from '@mantine/core';
import type { RuleType } from '../../api/detection-rules';
import { useFormat } from '../../app/preferences';
import type { RuleInput } from './form';
import { Steps } from './Steps';
import { BASELINE_WINDOWS, hasLateness, type Measure, MIN_EVENTS, type Problems } from './window-form';

type Setter = <Name extends keyof RuleInput>(name: Name) => (value: RuleInput[Name]) => void;

const TYPES: { value: RuleType; label: string }[] = [
  { value: 'query', label: 'Each event that matches' },
  { value: 'threshold', label: 'Threshold: many events within a time window' },
  { value: 'sequence', label: 'Sequence: events of several steps within a time window' },
  { value: 'rate_of_change', label: 'Rate of change: far more or fewer events than usual' },
  { value: 'absence', label: 'Absence: no event for a time' },
  { value: 'new_value', label: 'New value: a value that appears for the first time' },
];

const MEASURES: { value: Measure; label: string }[] = [
  { value: 'count', label: 'Number of events' },
  { value: 'distinct', label: 'Different values of a field' },
  { value: 'sum', label: 'Sum of a field' },
];

const ORDERS = [
  { value: 'ordered', label: 'In the order of the steps' },
  { value: 'any', label: 'In any order' },
];

const SIGMA: { value: RuleType; label: string } = { value: 'sigma', label: 'Sigma: each record that matches a rule in YAML' };

/** Type of a rule. That of a Sigma rule cannot be changed once it is stored. */
export function TypeField({ type, onChange, isNew }: { type: RuleType; onChange: (type: RuleType) => void; isNew: boolean }) {
  return <Select label="Raise an alert for" allowDeselect={false} data={isNew ? [...TYPES, SIGMA] : TYPES} value={type} onChange={(type) => onChange(type as RuleType)} />;
}

interface Props {
  input: RuleInput;
  set: Setter;
  problems: Problems;
}

/** When a rule over several events raises an alert. */
export function WindowFields({ input, set, problems }: Props) {
  const text = (name: 'window' | 'within' | 'after' | 'learnFor' | 'lateness' | 'field') => ({
    value: input[name],
    error: problems[name],
    onChange: (event: { currentTarget: { value: string } }) => set(name)(event.currentTarget.value),
  });
  return (
    <Stack gap="sm">
      {input.type === 'threshold' && (
        <SimpleGrid cols={{ base: 1, xs: 2, md: 4 }} spacing="md" verticalSpacing="sm">
          <TextInput label="Window" description="Such as 30s, 5m or 1h" required {...text('window')} />
          <Select label="Measure" description="Of the events with the same values of Group by" allowDeselect={false} data={MEASURES} value={input.measure} onChange={(measure) => set('measure')(measure as Measure)} />
          {input.measure !== 'count' && <TextInput label="Field" description="Whose values are measured" required {...text('field')} />}
          <NumberInput label="At least" description="The measure that raises an alert" required min={0} allowDecimal={input.measure !== 'count'} value={input.atLeast} error={problems['atLeast']} onChange={(atLeast) => set('atLeast')(typeof atLeast === 'number' ? atLeast : '')} />
        </SimpleGrid>
      )}
      {input.type === 'sequence' && (
        <>
          <Steps steps={input.steps} ordered={input.ordered} problems={problems} onChange={set('steps')} />
          <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="md" verticalSpacing="sm">
            <TextInput label="Within" description="Longest time from the first to the last event, such as 10m" required {...text('within')} />
            <Select label="Order" description="Of the times of the events" allowDeselect={false} data={ORDERS} value={input.ordered ? 'ordered' : 'any'} onChange={(order) => set('ordered')(order !== 'any')} />
          </SimpleGrid>
        </>
      )}
      {input.type === 'rate_of_change' && <RateFields input={input} set={set} problems={problems} window={text('window')} />}
      {input.type === 'absence' && <TextInput label="After" description="Time without an event of a value of Group by, such as 10m" required {...text('after')} />}
      {input.type === 'new_value' && <TextInput label="Learn for" description="Time after the first event in which new values of Group by raise no alert, such as 7d" required {...text('learnFor')} />}
      {hasLateness(input.type) && <TextInput label="Lateness" description="Maximum delay of an event that still counts" placeholder="10s" maw={400} {...text('lateness')} />}
    </Stack>
  );
}

function RateFields({ input, set, problems, window }: Props & { window: object }) {
  const number = (name: 'riseFactor' | 'dropPercent' | 'baselineWindows' | 'minEvents') => ({
    min: 0,
    value: input[name],
    error: problems[name],
    onChange: (value: string | number) => set(name)(typeof value === 'number' ? value : ''),
  });
  return (
    <>
      <SimpleGrid cols={{ base: 1, xs: 3 }} spacing="md" verticalSpacing="sm">
        <TextInput label="Window" description="Events are counted in windows of this length" required {...window} />
        <NumberInput label="Rise" description="Multiple of the mean of the previous windows" placeholder="No alert for a rise" suffix=" times" {...number('riseFactor')} />
        <NumberInput label="Drop" description="Percent below the mean of the previous windows" placeholder="No alert for a drop" suffix=" %" {...number('dropPercent')} />
      </SimpleGrid>
      <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="md" verticalSpacing="sm">
        <NumberInput label="Baseline" description="Number of previous windows for the mean" placeholder={String(BASELINE_WINDOWS)} allowDecimal={false} suffix=" windows" {...number('baselineWindows')} />
        <NumberInput label="Minimum events" description="Ignore changes with fewer events" placeholder={String(MIN_EVENTS)} allowDecimal={false} {...number('minEvents')} />
      </SimpleGrid>
      {!problems['riseFactor'] && !problems['dropPercent'] && <RateSentence input={input} />}
    </>
  );
}

/** What the inputs of a rate of change mean. */
function RateSentence({ input: { window, riseFactor, dropPercent, baselineWindows, minEvents } }: { input: RuleInput }) {
  const format = useFormat();
  if (riseFactor === '' && dropPercent === '') {
    return (
      <Text size="sm" c="dimmed">
        Fill in Rise, Drop, or both.
      </Text>
    );
  }
  const least = format.number(minEvents === '' ? MIN_EVENTS : minEvents);
  const mean = `the mean of the ${format.number(baselineWindows === '' ? BASELINE_WINDOWS : baselineWindows)} previous windows`;
  const rise = riseFactor !== '' && `has at least ${format.number(riseFactor)} times ${mean}, and at least ${least} events`;
  const drop = dropPercent !== '' && `is at least ${format.number(dropPercent)}% below ${rise ? 'the mean' : mean}, which is at least ${least} events`;
  return (
    <Text size="sm" c="dimmed" role="status">
      Raises an alert if a window of {window.trim() || '…'} {[rise, drop].filter((part) => part !== false).join('; or if it ')}.
    </Text>
  );
}
