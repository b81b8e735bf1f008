import { Route, Routes } from 'react-router';
import { IndexPage } from './IndexPage';
import { IndicesPage } from './IndicesPage';

/** Routes of data streams, indices and tiers. */
export default function Indices() {
  return (
    <Routes>
      <Route path="index/:index" element={<IndexPage />} />
      <Route path=":tab?" element={<IndicesPage />} />
    </Routes>
  );
}
