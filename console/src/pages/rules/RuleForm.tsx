import { ActionIcon, Button, Group, NumberInput, Paper, Select, SimpleGrid, Stack, Switch, TagsInput, Text, Textarea, TextInput, Title } from '@mantine/core';
import { IconPlus, IconX } from '@tabler/icons-react';
import { useMutation, useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { SEVERITIES, type Severity } from '../../api/alerts';
import { putRule, type RuleDefinition } from '../../api/detection-rules';
import { listPipelines } from '../../api/event-pipelines';
import { Failed } from '../../components/Failed';
import { type ExceptionInput, ruleDefinition, type RuleInput, ruleMissing, ruleProblems, suggestedId, withType } from './form';
import { HistoryTest } from './HistoryTest';
import { EMPTY_QUERY } from './query-form';
import { QueryFields } from './QueryFields';
import { useChannels } from './use-rules';
import { Validity } from './Validity';
import { TypeField, WindowFields } from './WindowFields';

interface Props {
  /** Null for a new rule, whose id the form asks for. */
  id: string | null;
  /** Definition that the form changes; null for a new rule. */
  stored: RuleDefinition | null;
  initial: RuleInput;
  onSaved: (id: string, definition: RuleDefinition) => void;
}

/** Form of a rule. If the server refuses the definition, the form shows its error. */
export function RuleForm({ id, stored, initial, onSaved }: Props) {
  const [input, setInput] = useState(initial);
  const [typedId, setTypedId] = useState<string | null>(null);
  const set = <Name extends keyof RuleInput>(name: Name) => (value: RuleInput[Name]) => setInput((before) => ({ ...before, [name]: value }));
  const target = id ?? typedId ?? suggestedId(input.name);
  const isSigma = input.type === 'sigma';
  const problems = ruleProblems(input);
  const missing = [...ruleMissing(input), ...(target === '' ? ['ID'] : [])];
  const isReady = missing.length === 0 && Object.keys(problems).length === 0;
  const { mutate, isPending, error } = useMutation({
    mutationFn: async () => {
      const definition = ruleDefinition(input, stored);
      await putRule(target, definition);
      return definition;
    },
    onSuccess: (definition) => onSaved(target, definition),
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
            <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="md" verticalSpacing="sm">
              <TextInput label="Name" required={!isSigma} {...(isSigma && { placeholder: 'Title of the Sigma rule' })} value={input.name} onChange={(event) => set('name')(event.currentTarget.value)} />
              {id === null && <TextInput label="ID" description="Cannot be changed. An existing rule with this ID is replaced." inputWrapperOrder={['label', 'input', 'description', 'error']} required value={target} onChange={(event) => setTypedId(event.currentTarget.value)} />}
            </SimpleGrid>
            <Textarea label="Description" autosize minRows={1} maxRows={8} {...(isSigma && { placeholder: 'Description of the Sigma rule' })} value={input.description} onChange={(event) => set('description')(event.currentTarget.value)} />
            {(id === null || !isSigma) && <TypeField type={input.type} onChange={(type) => setInput((before) => withType(before, type))} isNew={id === null} />}
            {isSigma ? (
              <Textarea
                label="Sigma rule"
                description="One document of YAML."
                required
                autosize
                minRows={12}
                maxRows={36}
                value={input.sigma}
                onChange={(event) => set('sigma')(event.currentTarget.value)}
                styles={{ input: { fontFamily: 'monospace' } }}
              />
            ) : (
              <>
                {input.type !== 'sequence' && <QueryFields label="Query" query={input.query} onChange={set('query')} />}
                <WindowFields input={input} set={set} problems={problems} />
              </>
            )}
            <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="md" verticalSpacing="sm">
              <Select
                label="Severity"
                clearable
                placeholder={isSigma ? 'Level of the Sigma rule' : 'medium'}
                data={[...SEVERITIES]}
                value={input.severity}
                onChange={(severity) => set('severity')(severity as Severity | null)}
              />
              <NumberInput label="Risk score" min={0} max={100} allowDecimal={false} placeholder="By severity" value={input.riskScore} onChange={(score) => set('riskScore')(typeof score === 'number' ? score : '')} />
            </SimpleGrid>
            <TagsInput label="Tags" description="Tags such as attack.t1078 and attack.persistence name techniques and tactics of MITRE ATT&CK." {...(isSigma && { placeholder: 'Tags of the Sigma rule' })} value={input.tags} onChange={set('tags')} />
            <Textarea label="Note" description="How to investigate an alert." autosize minRows={1} maxRows={16} value={input.note} onChange={(event) => set('note')(event.currentTarget.value)} />
            <Switch label="Enabled" checked={input.enabled} onChange={(event) => set('enabled')(event.currentTarget.checked)} />
          </Stack>
        </Paper>
        <Scope input={input} set={set} />
        <Exceptions exceptions={input.exceptions} onChange={set('exceptions')} />
        <HistoryTest input={input} />
        {error && <Failed title="Rule not saved" error={error} />}
        <Group>
          <Button type="submit" size="sm" loading={isPending} disabled={!isReady}>
            {id === null ? 'Create rule' : 'Save'}
          </Button>
          <Validity definition={isReady ? ruleDefinition(input, stored) : null} missing={missing} />
        </Group>
      </Stack>
    </form>
  );
}

type Setter = <Name extends keyof RuleInput>(name: Name) => (value: RuleInput[Name]) => void;

/** Which events are evaluated, and where their alerts go. */
function Scope({ input, set }: { input: RuleInput; set: Setter }) {
  const pipelines = useQuery({ queryKey: ['event-pipelines'], queryFn: ({ signal }) => listPipelines(signal) });
  const channels = useChannels();
  const isCounting = input.type !== 'query' && input.type !== 'sigma';
  return (
    <Paper withBorder p="md" bg="var(--firn-surface)">
      <Stack gap="sm">
        <Title order={2} size="h5">
          Scope and delivery
        </Title>
        <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="md" verticalSpacing="sm">
          <TagsInput label="Pipelines" placeholder={input.pipelines.length === 0 ? 'All pipelines' : ''} data={pipelines.data?.map(({ id }) => id) ?? []} value={input.pipelines} onChange={set('pipelines')} />
          <TextInput label="Tenant" placeholder="All tenants" value={input.tenant} onChange={(event) => set('tenant')(event.currentTarget.value)} />
        </SimpleGrid>
        <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="md" verticalSpacing="sm">
          <TagsInput label="Group by" description={isCounting ? 'Events with the same values are counted together.' : 'Matches with the same values in one batch are one alert.'} required={input.type === 'absence' || input.type === 'new_value'} placeholder={input.groupBy.length === 0 ? 'Field, such as host.name' : ''} value={input.groupBy} onChange={set('groupBy')} />
          <TagsInput label="Channels" description="Deliver the alerts of this rule." placeholder={input.channels.length === 0 ? 'Console only' : ''} data={channels.data?.map(({ id }) => id) ?? []} value={input.channels} onChange={set('channels')} />
        </SimpleGrid>
      </Stack>
    </Paper>
  );
}

function Exceptions({ exceptions, onChange }: { exceptions: ExceptionInput[]; onChange: (exceptions: ExceptionInput[]) => void }) {
  const replace = (at: number, exception: ExceptionInput) => onChange(exceptions.map((other, index) => (index === at ? exception : other)));
  return (
    <Paper withBorder p="md" bg="var(--firn-surface)">
      <Stack gap="sm">
        <div>
          <Title order={2} size="h5">
            Exceptions
          </Title>
          <Text size="sm" c="dimmed">
            An event that matches an exception raises no alert.
          </Text>
        </div>
        {exceptions.map((exception, at) => (
          <Group key={at} align="flex-start" gap="sm">
            <div style={{ flex: '3 1 300px' }}>
              <QueryFields label={`Exception ${at + 1}`} query={exception} onChange={(query) => replace(at, { ...exception, ...query })} />
            </div>
            <TextInput style={{ flex: '1 1 140px' }} label="Name" aria-label={`Name of exception ${at + 1}`} value={exception.name} onChange={(event) => replace(at, { ...exception, name: event.currentTarget.value })} />
            <TextInput style={{ flex: '1 1 140px' }} label="Ends" placeholder="Never, or a date (UTC)" aria-label={`End of exception ${at + 1}`} value={exception.expires} onChange={(event) => replace(at, { ...exception, expires: event.currentTarget.value })} />
            <ActionIcon mt={28} variant="subtle" color="gray" aria-label={`Remove exception ${at + 1}`} onClick={() => onChange(exceptions.filter((_, index) => index !== at))}>
              <IconX size={16} aria-hidden />
            </ActionIcon>
          </Group>
        ))}
        <Group>
          <Button size="xs" variant="default" leftSection={<IconPlus size={14} aria-hidden />} onClick={() => onChange([...exceptions, { name: '', expires: '', ...EMPTY_QUERY }])}>
            Add exception
          </Button>
        </Group>
      </Stack>
    </Paper>
  );
}
