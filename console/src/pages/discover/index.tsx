import { lazy } from 'react';
import { Route, Routes } from 'react-router';
import { DiscoverPage } from './DiscoverPage';

const EventPage = lazy(() => import('./EventPage'));

export default function Discover() {
  return (
    <Routes>
      <Route path="event" element={<EventPage />} />
      <Route path="*" element={<DiscoverPage />} />
    </Routes>
  );
}
