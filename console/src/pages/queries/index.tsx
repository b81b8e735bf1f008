import { Tabs } from '@mantine/core';
import { useNavigate, useParams, Route, Routes } from 'react-router';
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
  return (
    <PageFrame title="Queries" about="What was asked of this server, how long it took, and who did what.">
      <Tabs value={tab} onChange={(next) => void navigate(next === 'audit' ? '/queries/audit' : '/queries')} keepMounted={false}>
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
    </PageFrame>
  );
}
