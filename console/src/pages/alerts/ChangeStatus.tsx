import { Alert, List, Text, Textarea } from '@mantine/core';
import { IconAlertTriangle } from '@tabler/icons-react';
import { useState } from 'react';
import { type AlertSelection, type AlertStatus, type ChangeResult, setAlertStatus } from '../../api/alerts';
import { useFormat } from '../../app/preferences';
import { FormDialog } from '../../components/FormDialog';

/** Actions by the status that they set. */
export const ACTIONS: Record<AlertStatus, string> = { acknowledged: 'Acknowledge', closed: 'Close', open: 'Reopen' };

/** Change of alerts that the user has not confirmed yet. */
export interface Change {
  status: AlertStatus;
  selection: AlertSelection;
  count: number;
}

interface Props {
  change: Change;
  onDone: (result: ChangeResult) => Promise<unknown>;
  onClose: () => void;
}

/** Dialog that sets the status of alerts, with an optional reason. */
export function ChangeStatus({ change: { status, selection, count }, onDone, onClose }: Props) {
  const format = useFormat();
  const [reason, setReason] = useState('');
  const action = `${ACTIONS[status]} ${format.number(count)} ${count === 1 ? 'alert' : 'alerts'}`;
  return (
    <FormDialog
      title={action}
      action={action}
      onSubmit={async () => onDone(await setAlertStatus(selection, status, reason.trim()))}
      onClose={onClose}
    >
      {'query' in selection && <Text size="sm">This includes alerts that are not shown in the table: all that match the filters of the page.</Text>}
      <Textarea label="Reason" description="Optional. Shown in the alert." autosize minRows={2} maxLength={1000} data-autofocus value={reason} onChange={(event) => setReason(event.currentTarget.value)} />
    </FormDialog>
  );
}

const FAILURES_SHOWN = 10;

/** Alerts that a request did not change, with the reason of each. */
export function ChangeFailures({ result, onClose }: { result: ChangeResult; onClose: () => void }) {
  const format = useFormat();
  const { failures, updated } = result;
  if (failures.length === 0) return null;
  return (
    <Alert
      role="alert"
      color="red"
      p="xs"
      icon={<IconAlertTriangle size={18} aria-hidden />}
      title={`${format.number(failures.length)} of ${format.number(failures.length + updated + result.unchanged)} alerts not changed`}
      withCloseButton
      closeButtonLabel="Close"
      onClose={onClose}
    >
      <List size="sm">
        {failures.slice(0, FAILURES_SHOWN).map(({ index, id, reason }) => (
          <List.Item key={`${index}/${id}`}>
            <bdi>{id}</bdi>: {reason}
          </List.Item>
        ))}
      </List>
      {failures.length > FAILURES_SHOWN && <Text size="sm">and {format.number(failures.length - FAILURES_SHOWN)} more</Text>}
    </Alert>
  );
}
