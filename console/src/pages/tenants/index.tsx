import { Navigate, Route, Routes } from 'react-router';
import { useSession } from '../../app/session-context';
import { TenantList } from './TenantList';
import { TenantPage } from './TenantPage';

/** Tenants with usage, quotas, API keys and the tenant view; for operators only. */
export default function Tenants() {
  const { session } = useSession();
  // Operators start a tenant view on this page, but tenants cannot list tenants.
  if (session.view_as) return <Navigate to="/discover" replace />;
  return (
    <Routes>
      <Route index element={<TenantList />} />
      <Route path=":id/:tab?" element={<TenantPage />} />
    </Routes>
  );
}
