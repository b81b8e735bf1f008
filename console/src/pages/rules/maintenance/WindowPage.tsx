import { notifications } from '@mantine/notifications';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useNavigate, useParams } from 'react-router';
import { fetchWindow, type StoredWindow } from '../../../api/maintenance-windows';
import { useFormat } from '../../../app/preferences';
import { Answer } from '../../../components/Answer';
import { PageFrame } from '../../../components/PageFrame';
import { newWindow, windowInput } from './form';
import { WINDOWS_PATH, WINDOWS_QUERY } from './paths';
import { WindowForm } from './WindowForm';

const LIST = { list: 'Maintenance windows', to: WINDOWS_PATH };

/** Returns to the list with a message once a window is saved. */
function useSaved() {
  const navigate = useNavigate();
  const client = useQueryClient();
  return (message: string) => {
    void client.invalidateQueries({ queryKey: WINDOWS_QUERY });
    notifications.show({ message });
    void navigate(WINDOWS_PATH);
  };
}

/** Page that creates a maintenance window. */
export function NewWindow() {
  const format = useFormat();
  const onSaved = useSaved();
  const [initial] = useState(() => newWindow(Date.now(), format.zone));
  return (
    <PageFrame title="Create maintenance window" about="Alerts raised in the window are stored, but neither delivered nor escalated." within={{ ...LIST, name: 'Create maintenance window' }}>
      <WindowForm id={null} stored={null} initial={initial} onSaved={() => onSaved('Maintenance window created.')} />
    </PageFrame>
  );
}

/** One maintenance window, in the form that changes it. */
export function WindowPage() {
  const { id = '' } = useParams();
  const onSaved = useSaved();
  // Fetched when the page opens, and not again: another definition would discard what the user types.
  const window = useQuery({ queryKey: [...WINDOWS_QUERY, id], queryFn: ({ signal }) => fetchWindow(id, signal), staleTime: 0, gcTime: 0, refetchOnWindowFocus: false, refetchOnReconnect: false });
  const name = window.data?.title ?? id;
  return (
    <PageFrame title={name} about={`Maintenance window ${id}`} within={{ ...LIST, name }}>
      <Answer query={window} what="Maintenance window">
        {(stored: StoredWindow) => <WindowForm id={id} stored={stored} initial={windowInput(stored)} onSaved={() => onSaved('Maintenance window saved.')} />}
      </Answer>
    </PageFrame>
  );
}
