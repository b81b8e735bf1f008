import { Badge, SegmentedControl, Stack } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { useSearchParams } from 'react-router';
import { search } from '../../api/search';
import { useFormat } from '../../app/preferences';
import { Answer } from '../../components/Answer';
import { type Column, DataTable } from '../../components/DataTable';
import { Empty } from '../../components/Empty';
import { Partial } from '../../components/Partial';
import { AUDIT_STREAM, auditBody, type AuditRecord, RANGES } from './traffic';

const REFRESH_MS = 15_000;

const COLOURS: Record<string, string> = { access_denied: 'red', authentication_failed: 'red', access_granted: 'green', authentication_success: 'glacier', records_lost: 'orange' };

/** Audit log: user, action, time, origin and outcome. */
export function Audit() {
  const format = useFormat();
  const [params, setParams] = useSearchParams();
  const asked = params.get('range');
  const range = RANGES.some(({ value }) => value === asked) ? (asked as string) : '24h';
  const audit = useQuery({
    queryKey: ['audit', range],
    queryFn: ({ signal }) => search<AuditRecord>(AUDIT_STREAM, auditBody(range), signal),
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
  const columns = useMemo(
    (): Column<{ id: string; record: AuditRecord }>[] => [
      { id: 'time', title: 'Time', width: 196, value: ({ record }) => record['@timestamp'], cell: ({ record }) => format.time(record['@timestamp']) },
      {
        id: 'what',
        title: 'Event',
        width: 190,
        value: ({ record }) => record.event.action,
        cell: ({ record }) => (
          <Badge variant="light" color={COLOURS[record.event.action] ?? 'gray'} tt="none">
            {record.event.action}
          </Badge>
        ),
      },
      { id: 'who', title: 'User', width: 110, value: ({ record }) => record.user?.name ?? record.apikey?.name ?? null },
      { id: 'tenant', title: 'Tenant', width: 110, value: ({ record }) => record.view?.tenant ?? record.tenant ?? null },
      { id: 'from', title: 'Origin', width: 120, value: ({ record }) => record.origin?.address ?? null },
      { id: 'action', title: 'Action', value: ({ record }) => record.action ?? null },
      { id: 'path', title: 'Path', value: ({ record }) => [record.request?.method, record.url?.path].filter(Boolean).join(' ') || null },
      { id: 'status', title: 'Status', width: 76, numeric: true, value: ({ record }) => record.status ?? null },
      { id: 'reason', title: 'Reason', value: ({ record }) => record.view?.reason ?? record.error?.type ?? null },
    ],
    [format],
  );
  return (
    <Stack>
      <div>
        <SegmentedControl
          size="xs"
          aria-label="Time range"
          data={RANGES.map(({ value, label }) => ({ value, label }))}
          value={range}
          onChange={(next) => setParams((before) => new URLSearchParams([...[...before].filter(([key]) => key !== 'range'), ['range', next]]), { replace: true })}
        />
      </div>
      <Answer query={audit} what="Audit log">
        {(response) => {
          const rows = response.hits.hits.map(({ _id, _source }) => ({ id: _id, record: _source }));
          if (rows.length === 0) return <Empty title="No audit events in this time range">Recorded when authentication is on.</Empty>;
          return (
            <>
              {response._shards.failed > 0 && <Partial title="Part of the audit log could not be read" failures={response._shards.failures ?? []} />}
              <DataTable label="audit log" rows={rows} columns={columns} rowKey={({ id }) => id} height={680} />
            </>
          );
        }}
      </Answer>
    </Stack>
  );
}
