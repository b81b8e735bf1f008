import { Autocomplete, Button, Checkbox, Group, JsonInput, Select, Stack, TagsInput, Text, TextInput } from '@mantine/core';
import { type FormEvent, useState } from 'react';
import type { Field } from '../../api/fields';
import { parseJson, type Scalar, wholeNumber } from '../../lib/json';
import { Dialog } from '../../components/Dialog';
import type { Condition, Filter } from './filters';

type Operator = Condition['op'];

const OPERATORS: { value: Operator; label: string }[] = [
  { value: 'is', label: 'is' },
  { value: 'one_of', label: 'is one of' },
  { value: 'range', label: 'is between' },
  { value: 'exists', label: 'exists' },
  { value: 'dsl', label: 'Query DSL' },
];

const NUMBERS = new Set(['long', 'integer', 'short', 'byte', 'double', 'float', 'half_float', 'scaled_float', 'unsigned_long']);

/** Converts typed text to the field's type: numbers and booleans. */
function scalar(text: string, type: string | undefined): Scalar {
  if (type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true';
  return (type && NUMBERS.has(type) ? wholeNumber(text.trim()) : null) ?? text;
}

interface Props {
  /** Null for a new filter. */
  filter: Filter | null;
  fields: Field[];
  onSave: (filter: Filter) => void;
  onClose: () => void;
}

/** Dialog that creates or edits a filter. */
export default function FilterDialog({ filter, fields, onSave, onClose }: Props) {
  const [field, setField] = useState(filter && filter.op !== 'dsl' ? filter.field : '');
  const [op, setOp] = useState<Operator>(filter?.op ?? 'is');
  const [value, setValue] = useState(filter?.op === 'is' ? String(filter.value) : '');
  const [values, setValues] = useState(filter?.op === 'one_of' ? filter.values.map(String) : []);
  const [gte, setGte] = useState(filter?.op === 'range' ? String(filter.gte ?? '') : '');
  const [lte, setLte] = useState(filter?.op === 'range' ? String(filter.lte ?? '') : '');
  const [dsl, setDsl] = useState(filter?.op === 'dsl' ? JSON.stringify(filter.dsl, null, 2) : '');
  const [not, setNot] = useState(filter?.not ?? false);
  const type = fields.find((known) => known.name === field)?.type;

  const condition = (): Condition | null => {
    if (op === 'dsl') return parsed(dsl);
    if (field.trim() === '') return null;
    switch (op) {
      case 'is':
        return { op, field, value: scalar(value, type) };
      case 'one_of':
        return values.length > 0 ? { op, field, values: values.map((value) => scalar(value, type)) } : null;
      case 'range':
        return gte || lte ? { op, field, ...(gte && { gte: scalar(gte, type) }), ...(lte && { lte: scalar(lte, type) }) } : null;
      case 'exists':
        return { op, field };
    }
  };
  const made = condition();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (!made) return;
    onClose();
    onSave({ ...made, ...(not && { not: true }), ...(filter?.pin && { pin: true }) });
  };

  return (
    <Dialog onClose={onClose} title={filter ? 'Edit filter' : 'Add filter'} size="lg">
      <form onSubmit={submit}>
        <Stack gap="sm">
          <Group grow align="flex-start">
            {op !== 'dsl' && <Autocomplete label="Field" data-autofocus data={fields.map(({ name }) => name)} limit={30} value={field} onChange={setField} />}
            <Select label="Condition" allowDeselect={false} data={OPERATORS} value={op} onChange={(op) => setOp(op as Operator)} />
          </Group>
          {op === 'is' && <TextInput label="Value" value={value} onChange={(event) => setValue(event.currentTarget.value)} />}
          {op === 'one_of' && <TagsInput label="Values" description="Press Enter after each value" value={values} onChange={setValues} splitChars={[]} />}
          {op === 'range' && (
            <Group grow>
              <TextInput label="At least" value={gte} onChange={(event) => setGte(event.currentTarget.value)} />
              <TextInput label="At most" value={lte} onChange={(event) => setLte(event.currentTarget.value)} />
            </Group>
          )}
          {op === 'dsl' && <JsonInput label="Query" autosize minRows={5} maxRows={16} placeholder='{"term": {"severity": "critical"}}' value={dsl} onChange={setDsl} ff="monospace" />}
          <Checkbox label="Exclude matching events" checked={not} onChange={(event) => setNot(event.currentTarget.checked)} />
          <Group justify="flex-end">
            {type && op !== 'dsl' && (
              <Text size="xs" c="dimmed" me="auto">
                Type of {field}: {type}
              </Text>
            )}
            <Button variant="default" onClick={onClose}>
              Cancel
            </Button>
            <Button type="submit" disabled={!made}>
              {filter ? 'Update filter' : 'Add filter'}
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}

function parsed(text: string): Condition | null {
  try {
    const dsl: unknown = parseJson(text);
    return typeof dsl === 'object' && dsl !== null && !Array.isArray(dsl) ? { op: 'dsl', dsl } : null;
  } catch {
    return null;
  }
}
