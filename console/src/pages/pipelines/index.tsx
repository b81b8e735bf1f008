import { Navigate, Route, Routes } from 'react-router';
import { useSession } from '../../app/session-context';
import { PipelineList } from './PipelineList';
import { PipelinePage } from './PipelinePage';

/** Event pipelines with their rates, accounts, errors and dead letters; for operators only. */
export default function Pipelines() {
  const { session } = useSession();
  if (session.view_as) return <Navigate to="/discover" replace />;
  return (
    <Routes>
      <Route index element={<PipelineList />} />
      <Route path=":id" element={<PipelinePage />} />
    </Routes>
  );
}
