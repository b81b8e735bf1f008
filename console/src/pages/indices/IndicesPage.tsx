import { Switch, Tabs } from '@mantine/core';
import { useNavigate, useParams, useSearchParams } from 'react-router';
import { useSession } from '../../app/session-context';
import { Answer } from '../../components/Answer';
import { Empty } from '../../components/Empty';
import { PageFrame } from '../../components/PageFrame';
import { Cache } from './Cache';
import { IndexTable } from './IndexTable';
import { StreamTable } from './StreamTable';
import { Tiers } from './Tiers';
import { useIndices } from './use-indices';

/** Internal indices of firn begin with a dot. */
const isInternal = (name: string) => name.startsWith('.');
/** Backing indices begin with a dot too; the name of their stream counts. */
const isHidden = (index: string, stream: string | null) => isInternal(stream ?? index);

export function IndicesPage() {
  const { tab = 'streams' } = useParams();
  const navigate = useNavigate();
  const { session } = useSession();
  const [params, setParams] = useSearchParams();
  const all = params.get('hidden') === '1';
  const ofStream = params.get('stream');
  const indices = useIndices();
  const operator = session.operator && !session.view_as;
  return (
    <PageFrame
      title="Indices and tiers"
      about="Data streams, their backing indices, and where each is stored."
      actions={
        <Switch
          size="xs"
          label="Show hidden"
          checked={all}
          onChange={(event) => setParams(event.currentTarget.checked ? { ...Object.fromEntries(params), hidden: '1' } : without(params, 'hidden'), { replace: true })}
        />
      }
    >
      <Tabs value={tab} onChange={(next) => void navigate(`/indices/${next ?? ''}${all ? '?hidden=1' : ''}`)} keepMounted={false}>
        <Tabs.List mb="md">
          <Tabs.Tab value="streams">Data streams</Tabs.Tab>
          <Tabs.Tab value="all">Indices</Tabs.Tab>
          {operator && <Tabs.Tab value="tiers">Tiers</Tabs.Tab>}
          {operator && <Tabs.Tab value="cache">Frozen cache</Tabs.Tab>}
        </Tabs.List>
        <Tabs.Panel value="streams">
          <Answer query={indices} what="Data streams">
            {({ streams, rows }) => {
              const shown = streams.filter((stream) => all || !isInternal(stream.name));
              if (shown.length > 0) return <StreamTable streams={shown} />;
              const plain = rows.filter((row) => row.stream === null && (all || !isHidden(row.index, row.stream)));
              return (
                <>
                  <Empty title="No data streams yet">
                    The first event sent to a name creates a data stream if an index template defines one, otherwise an index.
                    {plain.length > 0 && ' Indices outside of data streams:'}
                  </Empty>
                  {plain.length > 0 && <IndexTable rows={plain} stream={null} />}
                </>
              );
            }}
          </Answer>
        </Tabs.Panel>
        <Tabs.Panel value="all">
          <Answer query={indices} what="Indices">
            {({ rows }) => {
              const shown = rows.filter((row) => (all || !isHidden(row.index, row.stream)) && (!ofStream || row.stream === ofStream));
              if (shown.length === 0) return <Empty title="No indices found">{ofStream ? `Data stream ${ofStream} has no backing indices.` : 'The first event sent to an index creates it.'}</Empty>;
              return <IndexTable rows={shown} stream={ofStream} />;
            }}
          </Answer>
        </Tabs.Panel>
        {operator && (
          <>
            <Tabs.Panel value="tiers">
              <Tiers indices={indices} />
            </Tabs.Panel>
            <Tabs.Panel value="cache">
              <Cache />
            </Tabs.Panel>
          </>
        )}
      </Tabs>
    </PageFrame>
  );
}

function without(params: URLSearchParams, key: string): URLSearchParams {
  const after = new URLSearchParams(params);
  after.delete(key);
  return after;
}
