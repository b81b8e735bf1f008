import { Radio, Select, Stack, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { fetchSavedList } from '../../api/saved';
import { Failed } from '../../components/Failed';
import { FormDialog } from '../../components/FormDialog';
import { decodeState, encodeState, EMPTY_STATE } from '../discover/state';
import type { Panel, PanelKind } from './state';

const OWN = 'Custom query';

/** Dialog that adds or edits a panel: title, chart type, field and data. */
export function PanelDialog({ panel, onSave, onClose }: { panel: Panel | null; onSave: (panel: Panel) => void; onClose: () => void }) {
  const searches = useQuery({ queryKey: ['saved', 'search'], queryFn: ({ signal }) => fetchSavedList('search', signal) });
  const before = decodeState(panel?.search ?? '').state;
  const [title, setTitle] = useState(panel?.title ?? '');
  const [kind, setKind] = useState<PanelKind>(panel?.kind ?? 'top');
  const [field, setField] = useState(panel?.field ?? '');
  const [saved, setSaved] = useState(panel?.saved ?? OWN);
  const [text, setText] = useState(before.text);
  // A query in another language cannot be edited here and stays unchanged.
  const editable = before.language === 'kql';
  const save = () => {
    const search = saved !== OWN ? '' : editable ? encodeState({ ...(panel?.search ? before : EMPTY_STATE), text }) : (panel?.search ?? '');
    onSave({ title: title.trim() || field.trim(), kind, field: field.trim(), ...(search && { search }), ...(saved !== OWN && { saved }) });
    return Promise.resolve();
  };
  return (
    <FormDialog title={panel ? 'Edit panel' : 'Add panel'} action={panel ? 'Save' : 'Add'} ready={field.trim() !== ''} onSubmit={save} onClose={onClose}>
      <TextInput label="Title" data-autofocus value={title} onChange={(event) => setTitle(event.currentTarget.value)} />
      <Radio.Group label="Chart type" value={kind} onChange={(value) => setKind(value as PanelKind)}>
        <Stack gap="xs" mt={4}>
          <Radio value="top" label="Top values of a field" />
          <Radio value="time" label="Events over time, broken down by a field" />
        </Stack>
      </Radio.Group>
      <TextInput label="Field" required value={field} onChange={(event) => setField(event.currentTarget.value)} />
      <Select
        label="Data"
        description="Dashboard time and query also apply"
        allowDeselect={false}
        searchable
        data={[{ value: OWN, label: OWN }, ...(searches.data ?? []).map((entry) => ({ value: entry.id, label: `Saved search “${entry.title}”` }))]}
        value={saved}
        onChange={(value) => setSaved(value ?? OWN)}
      />
      {searches.error && <Failed compact title="Failed to load the saved searches" error={searches.error} />}
      {saved === OWN && editable && <TextInput label="Query (KQL)" ff="monospace" placeholder="all events" value={text} onChange={(event) => setText(event.currentTarget.value)} />}
    </FormDialog>
  );
}
