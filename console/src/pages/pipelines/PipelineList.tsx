import { Anchor } from '@mantine/core';
import { useMemo } from 'react';
import { Link } from 'react-router';
import { type Pipeline, sourceError } from '../../api/event-pipelines';
import { useFormat } from '../../app/preferences';
import { Answer } from '../../components/Answer';
import { type Column, DataTable } from '../../components/DataTable';
import { Empty } from '../../components/Empty';
import { PageFrame } from '../../components/PageFrame';
import { State, stateOf } from './State';
import { usePipelines } from './use-pipelines';

/** All pipelines. */
export function PipelineList() {
  const format = useFormat();
  const { query, rate } = usePipelines();
  const columns = useMemo((): Column<Pipeline>[] => {
    const count = (id: string, title: string, of: (pipeline: Pipeline) => number | undefined): Column<Pipeline> => ({
      id,
      title,
      width: 120,
      numeric: true,
      value: (pipeline) => of(pipeline) ?? null,
      cell: (pipeline) => {
        const value = of(pipeline);
        return value === undefined ? '–' : format.number(value);
      },
    });
    return [
      {
        id: 'id',
        title: 'Pipeline',
        value: ({ id }) => id,
        cell: ({ id }) => (
          <Anchor component={Link} to={`/pipelines/${encodeURIComponent(id)}`} size="sm">
            {id}
          </Anchor>
        ),
      },
      { id: 'source', title: 'Source', width: 110, value: ({ definition }) => definition.source.type },
      { id: 'index', title: 'Index', value: ({ definition }) => definition.index },
      { id: 'state', title: 'State', width: 110, value: (pipeline) => stateOf(pipeline), cell: (pipeline) => <State pipeline={pipeline} /> },
      {
        id: 'rate',
        title: 'Events/s',
        width: 100,
        numeric: true,
        value: ({ id }) => rate(id),
        cell: ({ id }) => {
          const value = rate(id);
          return value === null ? '–' : format.number(Math.round(value));
        },
      },
      count('indexed', 'Indexed', ({ stats }) => stats?.since_start.indexed),
      count('dead', 'Dead letters', ({ stats }) => stats?.since_start.dead_lettered),
      count('waiting', 'In flight', ({ stats }) => stats?.since_start.in_flight),
      { id: 'error', title: 'Error', value: ({ stats }) => (stats && (stats.error ?? sourceError(stats))) ?? null },
    ];
  }, [format, rate]);
  return (
    <PageFrame title="Pipelines" about="Event pipelines with their source, destination index and counts since the start of the server.">
      <Answer query={query} what="Pipelines">
        {(pipelines) => (
          <>
            <DataTable label="pipelines" rows={pipelines} columns={columns} rowKey={({ id }) => id} initialSort="id" hideWhenEmpty />
            {pipelines.length === 0 && <Empty title="No pipelines">Create one with PUT /_firn/pipelines/NAME: a source (syslog, files, Kafka, OTLP, Splunk HEC, HTTP), a pack, and an index.</Empty>}
          </>
        )}
      </Answer>
    </PageFrame>
  );
}
