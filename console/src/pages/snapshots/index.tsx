import { Tabs } from '@mantine/core';
import { Route, Routes, useNavigate, useParams } from 'react-router';
import { PageFrame } from '../../components/PageFrame';
import { Policies } from './Policies';
import { Repositories } from './Repositories';
import { RepositoryPage } from './RepositoryPage';

/** Repositories, snapshots and snapshot policies; for operators only. */
export default function Snapshots() {
  return (
    <Routes>
      <Route path="repository/:name/:tab?" element={<RepositoryPage />} />
      <Route path=":tab?" element={<SnapshotsPage />} />
    </Routes>
  );
}

function SnapshotsPage() {
  const { tab = 'repositories' } = useParams();
  const navigate = useNavigate();
  return (
    <PageFrame title="Snapshots and repositories" about="Take snapshots of indices, restore them, or mount them as searchable snapshots.">
      <Tabs value={tab} onChange={(next) => void navigate(`/snapshots/${next ?? ''}`)} keepMounted={false}>
        <Tabs.List mb="md">
          <Tabs.Tab value="repositories">Repositories</Tabs.Tab>
          <Tabs.Tab value="policies">Snapshot policies</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="repositories">
          <Repositories />
        </Tabs.Panel>
        <Tabs.Panel value="policies">
          <Policies />
        </Tabs.Panel>
      </Tabs>
    </PageFrame>
  );
}
