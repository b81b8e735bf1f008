import { Tabs } from '@mantine/core';
import { useNavigate, useParams, Route, Routes } from 'react-router';
import { useSession } from '../../app/session-context';
import { Empty } from '../../components/Empty';
import { PageFrame } from '../../components/PageFrame';
import { Audit } from './Audit';
import { Traffic } from './Traffic';

/** What was asked of this server, how long it took, and who did what. */
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
    <PageFrame title="Queries" about="What was asked of this server, how long it took, and who did what.">
      {/* The server has no such record for anybody else: asked for, it would seem that there is none at all. */}
      {!session.operator || session.view_as !== null ? (
        <Empty title="This page is for operators">{session.view_as === null ? 'What was asked of this server is shown to those who run it.' : 'You have the view of a tenant. Go back to your own view to see it.'}</Empty>
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
