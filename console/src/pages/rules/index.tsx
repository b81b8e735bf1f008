import { Navigate, Route, Routes } from 'react-router';
import { useSession } from '../../app/session-context';
import { NewRule } from './NewRule';
import { RuleList } from './RuleList';
import { RulePage } from './RulePage';

/** Detection rules, and the channels that deliver their alerts; for operators only. */
export default function Rules() {
  const { session } = useSession();
  if (session.view_as) return <Navigate to="/discover" replace />;
  return (
    <Routes>
      <Route index element={<RuleList />} />
      <Route path="new/query" element={<NewRule />} />
      <Route path=":id" element={<RulePage />} />
    </Routes>
  );
}
