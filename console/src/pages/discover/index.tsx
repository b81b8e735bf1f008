import { Empty } from '../../components/Empty';

export default function Discover() {
  return <Empty title="Discover" />;
}
