import { Navigate, Route, Routes } from 'react-router';
import { useSession } from '../../app/session-context';
import { TenantList } from './TenantList';
import { TenantPage } from './TenantPage';

/** Operators only: who is there, what each uses and may use, their keys, and their view. */
export default function Tenants() {
  const { session } = useSession();
  // Whoever takes a tenant's view does so here, and that view has no tenants.
  if (session.view_as) return <Navigate to="/discover" replace />;
  return (
    <Routes>
      <Route index element={<TenantList />} />
      <Route path=":id/:tab?" element={<TenantPage />} />
    </Routes>
  );
}
