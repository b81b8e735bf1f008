import { Tabs } from '@mantine/core';
import { useNavigate, useParams, Route, Routes } from 'react-router';
import { useSession } from '../../app/session-context';
import { Empty } from '../../components/Empty';
import { PageFrame } from '../../components/PageFrame';
import { Audit } from './Audit';
import { Traffic } from './Traffic';

/** Requests to this server with their latency, and the audit log. */
export default function Queries() {
  return (
    <Routes>
      <Route path=":tab?" element={<QueriesPage />} />
    </Routes>
  );
}

function QueriesPage() {
  const { tab = 'traffic' } = useParams();
  const navigate = useNavigate();
  const { session } = useSession();
  return (
    <PageFrame title="Activity" about="Requests to this server with their latency, and the audit log.">
      {/* Other users get empty results from the server, which would look as if nothing were recorded. */}
      {!session.operator || session.view_as !== null ? (
        <Empty title="This page is for operators">{session.view_as === null ? 'Only operators may see the requests to this server.' : 'You are viewing as a tenant. Exit the tenant view to see this page.'}</Empty>
      ) : (
        <Records tab={tab} onTab={(next) => void navigate(next === 'audit' ? '/queries/audit' : '/queries')} />
      )}
    </PageFrame>
  );
}

function Records({ tab, onTab }: { tab: string; onTab: (tab: string | null) => void }) {
  return (
    <Tabs value={tab} onChange={onTab} keepMounted={false}>
      <Tabs.List mb="md">
        <Tabs.Tab value="traffic">Traffic</Tabs.Tab>
        <Tabs.Tab value="audit">Audit log</Tabs.Tab>
      </Tabs.List>
      <Tabs.Panel value="traffic">
        <Traffic />
      </Tabs.Panel>
      <Tabs.Panel value="audit">
        <Audit />
      </Tabs.Panel>
    </Tabs>
  );
}
