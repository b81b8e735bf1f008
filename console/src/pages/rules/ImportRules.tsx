import { Button, FileButton, Group, Progress, Select, Stack, Switch, TagsInput, Text, TextInput } from '@mantine/core';
import { IconFileUpload } from '@tabler/icons-react';
import { useMutation } from '@tanstack/react-query';
import { type DragEvent, type FormEvent, useState } from 'react';
import { useFormat } from '../../app/preferences';
import { Dialog } from '../../components/Dialog';
import { Failed } from '../../components/Failed';
import { droppedFiles, importFiles, type ImportSum, isNdjson } from './import-files';
import { ImportResults } from './ImportResults';
import classes from './ImportRules.module.css';
import { useChannels } from './use-rules';

const STATES = [
  { value: 'as-they-are', label: 'As in the files' },
  { value: 'enabled', label: 'Enabled' },
  { value: 'disabled', label: 'Disabled' },
];

/** Dialog that imports rules from files, and lists those that were refused and what of others was not taken over. */
export function ImportRules({ onImported, onClose }: { onImported: () => Promise<unknown>; onClose: () => void }) {
  const format = useFormat();
  const channelList = useChannels();
  const [files, setFiles] = useState<File[]>([]);
  const [state, setState] = useState('as-they-are');
  const [replace, setReplace] = useState<boolean | null>(null);
  const [tenant, setTenant] = useState('');
  const [channels, setChannels] = useState<string[]>([]);
  const [progress, setProgress] = useState<{ sum: ImportSum; share: number } | null>(null);
  // As the server does: Sigma rules are imported again and again, rules of Kibana are not replaced unasked.
  const overwrite = replace ?? !files.some(isNdjson);
  const { mutate, isPending, isSuccess, error } = useMutation({
    mutationFn: () =>
      importFiles(files, { enabled: state === 'as-they-are' ? null : state === 'enabled', overwrite, tenant: tenant.trim(), channels }, (sum, share) => setProgress({ sum, share })),
    onSettled: onImported,
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (files.length > 0) mutate();
  };
  return (
    <Dialog onClose={onClose} title="Import rules" centered size="xl" closeOnClickOutside={!isPending}>
      <form onSubmit={submit}>
        <Stack>
          {!isSuccess && (
            <>
              <DropZone files={files} onFiles={setFiles} />
              <Group grow align="flex-start">
                <TextInput label="Tenant" placeholder="All tenants" value={tenant} onChange={(event) => setTenant(event.currentTarget.value)} />
                <TagsInput label="Channels" placeholder={channels.length === 0 ? 'Console only' : ''} data={channelList.data?.map(({ id }) => id) ?? []} value={channels} onChange={setChannels} />
                <Select label="Imported rules are" allowDeselect={false} data={STATES} value={state} onChange={(state) => setState(state ?? 'as-they-are')} />
              </Group>
              <Switch label="Replace existing rules" checked={overwrite} onChange={(event) => setReplace(event.currentTarget.checked)} />
            </>
          )}
          {isPending && <Progress value={(progress?.share ?? 0) * 100} animated aria-label="Imported share" />}
          {progress && <ImportResults sum={progress.sum} />}
          {error && <Failed title="Import stopped" error={error} compact />}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              {isSuccess ? 'Done' : 'Cancel'}
            </Button>
            {!isSuccess && (
              <Button type="submit" loading={isPending} disabled={files.length === 0}>
                {files.length === 0 ? 'Import' : `Import ${format.number(files.length)} ${files.length === 1 ? 'file' : 'files'}`}
              </Button>
            )}
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}

/** Takes dropped files and folders; a button opens the file picker. */
function DropZone({ files, onFiles }: { files: File[]; onFiles: (files: File[]) => void }) {
  const format = useFormat();
  const [over, setOver] = useState(false);
  const [failure, setFailure] = useState<unknown>(null);
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    droppedFiles(event.dataTransfer).then((dropped) => {
      setFailure(dropped.length === 0 ? new Error('Not rule files: the names must end in .yml, .yaml or .ndjson.') : null);
      onFiles(dropped);
    }, setFailure);
  };
  const drag = (event: DragEvent) => {
    event.preventDefault();
    setOver(true);
  };
  return (
    <>
      <div className={classes.zone} data-over={over || undefined} onDragOver={drag} onDragLeave={() => setOver(false)} onDrop={drop} role="group" aria-label="Files with rules">
        <IconFileUpload size={28} stroke={1.4} aria-hidden />
        <Text size="sm">{files.length === 0 ? 'Drop Sigma files (.yml, .yaml), exports of Kibana or firn (.ndjson), or folders here' : `${format.number(files.length)} ${files.length === 1 ? 'file' : 'files'} selected`}</Text>
        <FileButton multiple accept=".yml,.yaml,.ndjson" onChange={onFiles} inputProps={{ 'aria-label': 'Files with rules', tabIndex: -1 }}>
          {(props) => (
            <Button {...props} size="xs" variant="default" data-autofocus>
              Choose files
            </Button>
          )}
        </FileButton>
      </div>
      {failure !== null && <Failed title="No files to import" error={failure} compact />}
    </>
  );
}
