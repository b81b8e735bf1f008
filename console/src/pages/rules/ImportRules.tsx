import { Alert, Button, FileButton, Group, Progress, Stack, Switch, Table, TagsInput, Text, TextInput } from '@mantine/core';
import { IconFileUpload } from '@tabler/icons-react';
import { useMutation } from '@tanstack/react-query';
import { type DragEvent, type FormEvent, useState } from 'react';
import type { ImportResult } from '../../api/detection-rules';
import { useFormat } from '../../app/preferences';
import { Dialog } from '../../components/Dialog';
import { Failed } from '../../components/Failed';
import classes from './ImportRules.module.css';
import { droppedFiles, importFiles } from './sigma-import';
import { useChannels } from './use-rules';

const REFUSED_SHOWN = 200;

/** Dialog that imports Sigma files, and lists the rules that were refused. */
export function ImportRules({ onImported, onClose }: { onImported: () => Promise<unknown>; onClose: () => void }) {
  const format = useFormat();
  const channelList = useChannels();
  const [files, setFiles] = useState<File[]>([]);
  const [enabled, setEnabled] = useState(true);
  const [tenant, setTenant] = useState('');
  const [channels, setChannels] = useState<string[]>([]);
  const [progress, setProgress] = useState<{ result: ImportResult; share: number } | null>(null);
  const { mutate, isPending, isSuccess, error } = useMutation({
    mutationFn: () => importFiles(files, { enabled, tenant: tenant.trim(), channels }, (result, share) => setProgress({ result, share })),
    onSettled: onImported,
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (files.length > 0) mutate();
  };
  return (
    <Dialog onClose={onClose} title="Import Sigma rules" centered size="xl" closeOnClickOutside={!isPending}>
      <form onSubmit={submit}>
        <Stack>
          {!isSuccess && (
            <>
              <DropZone files={files} onFiles={setFiles} />
              <Group grow align="flex-start">
                <TextInput label="Tenant" placeholder="All tenants" value={tenant} onChange={(event) => setTenant(event.currentTarget.value)} />
                <TagsInput label="Channels" placeholder={channels.length === 0 ? 'Console only' : ''} data={channelList.data?.map(({ id }) => id) ?? []} value={channels} onChange={setChannels} />
              </Group>
              <Switch label="Enable the imported rules" checked={enabled} onChange={(event) => setEnabled(event.currentTarget.checked)} />
            </>
          )}
          {isPending && <Progress value={(progress?.share ?? 0) * 100} animated aria-label="Imported share" />}
          {progress && <Result result={progress.result} />}
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
      setFailure(dropped.length === 0 ? new Error('These are no Sigma rules: their names end in neither .yml nor .yaml.') : null);
      onFiles(dropped);
    }, setFailure);
  };
  const drag = (event: DragEvent) => {
    event.preventDefault();
    setOver(true);
  };
  return (
    <>
      <div className={classes.zone} data-over={over || undefined} onDragOver={drag} onDragLeave={() => setOver(false)} onDrop={drop} role="group" aria-label="Sigma files">
        <IconFileUpload size={28} stroke={1.4} aria-hidden />
        <Text size="sm">{files.length === 0 ? 'Drop Sigma files or folders here (.yml, .yaml)' : `${format.number(files.length)} ${files.length === 1 ? 'file' : 'files'} selected`}</Text>
        <FileButton multiple accept=".yml,.yaml" onChange={onFiles} inputProps={{ 'aria-label': 'Sigma files', tabIndex: -1 }}>
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

function Result({ result: { imported, refused } }: { result: ImportResult }) {
  const format = useFormat();
  return (
    <>
      <Alert role="status" color={refused.length > 0 ? 'yellow' : 'green'} p="xs" title={`${format.number(imported.length)} imported, ${format.number(refused.length)} refused`} />
      {refused.length > 0 && (
        // Focusable, so that keyboard users can scroll it.
        // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
        <div className={classes.refused} tabIndex={0} role="region" aria-label="Refused rules">
          <Table aria-label="Refused rules" stickyHeader>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Rule</Table.Th>
                <Table.Th>Reason</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {refused.slice(0, REFUSED_SHOWN).map(({ id, title, reason }, at) => (
                <Table.Tr key={at}>
                  <Table.Td>{title || id || '(no title)'}</Table.Td>
                  <Table.Td style={{ overflowWrap: 'anywhere' }}>{reason}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
          {refused.length > REFUSED_SHOWN && (
            <Text size="sm" c="dimmed" p="xs">
              and {format.number(refused.length - REFUSED_SHOWN)} more
            </Text>
          )}
        </div>
      )}
    </>
  );
}
