import { Navigate, Route, Routes } from 'react-router';
import { useSession } from '../../app/session-context';
import { WindowList } from './maintenance/WindowList';
import { NewWindow, WindowPage } from './maintenance/WindowPage';
import { NewRule } from './NewRule';
import { RuleList } from './RuleList';
import { RulePage } from './RulePage';

/** Detection rules, the channels that deliver their alerts, and maintenance windows; for operators only. */
export default function Rules() {
  const { session } = useSession();
  if (session.view_as) return <Navigate to="/discover" replace />;
  return (
    <Routes>
      <Route index element={<RuleList />} />
      <Route path="new/query" element={<NewRule />} />
      <Route path="maintenance/windows" element={<WindowList />} />
      <Route path="maintenance/new" element={<NewWindow />} />
      <Route path="maintenance/window/:id" element={<WindowPage />} />
      <Route path=":id" element={<RulePage />} />
    </Routes>
  );
}
