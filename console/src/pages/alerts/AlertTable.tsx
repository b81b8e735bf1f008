import { Anchor, Badge, Button, Checkbox, Group, Text } from '@mantine/core';
import { useMemo } from 'react';
import { type AlertHit, type AlertSelection, type AlertState, type AlertStatus, STATUSES } from '../../api/alerts';
import { useFormat } from '../../app/preferences';
import { type Column, DataTable } from '../../components/DataTable';
import { SeverityBadge } from '../../components/SeverityBadge';
import { ACTIONS, type Change } from './ChangeStatus';
import { isInMaintenance } from './Deliveries';
import { groupText } from './links';
import { CHANGES_MAX, keyOf, nameOf } from './search';
import { MaintenanceBadge, StatusBadge } from './StatusBadge';

/** Selected alerts: by key, or all that match the filters of the page. */
export type Selected = ReadonlySet<string> | 'matching';

interface Props {
  hits: AlertHit[];
  total: number;
  selected: Selected;
  /** Status filter of the page: a status that all alerts have already is not offered. */
  status: AlertStatus | 'all';
  openKey: string | null;
  showTenant: boolean;
  /** Selection of all matching alerts. */
  matching: AlertSelection;
  onSelect: (selected: Selected) => void;
  onOpen: (hit: AlertHit) => void;
  onChange: (change: Change) => void;
}

/** Table of alerts, newest first, with bulk actions on the selected ones. */
export function AlertTable({ hits, total, selected, status, openKey, showTenant, matching, onSelect, onOpen, onChange }: Props) {
  const format = useFormat();
  const columns = useMemo((): Column<AlertHit>[] => {
    const isChecked = (hit: AlertHit) => selected === 'matching' || selected.has(keyOf(hit));
    const toggle = (hit: AlertHit) => {
      const next = new Set(selected === 'matching' ? hits.map(keyOf) : selected);
      if (!next.delete(keyOf(hit))) next.add(keyOf(hit));
      onSelect(next);
    };
    const state = ({ _source }: AlertHit) => _source.firn?.alert;
    const all: (Column<AlertHit> | false)[] = [
      {
        id: 'select',
        title: 'Select',
        width: 70,
        value: () => null,
        cell: (hit) => <Checkbox size="xs" aria-label={`Select ${ruleName(hit)}, ${format.time(Date.parse(hit._source['@timestamp']))}`} checked={isChecked(hit)} onChange={() => toggle(hit)} />,
      },
      { id: 'time', title: 'Time', width: 200, value: ({ _source }) => _source['@timestamp'], cell: ({ _source }) => format.time(Date.parse(_source['@timestamp'])) },
      {
        id: 'severity',
        title: 'Severity',
        width: 140,
        value: (hit) => state(hit)?.severity ?? null,
        cell: (hit) => {
          const severity = state(hit)?.severity;
          return severity ? <SeverityBadge severity={severity} /> : '–';
        },
      },
      {
        id: 'rule',
        title: 'Rule',
        value: ruleName,
        cell: (hit) => (
          <Anchor component="button" type="button" size="sm" w="100%" ta="start" truncate display="block" onClick={() => onOpen(hit)}>
            {ruleName(hit)}
          </Anchor>
        ),
      },
      { id: 'group', title: 'Group', value: (hit) => groupText(state(hit) ?? NO_STATE) || null },
      { id: 'count', title: 'Events', width: 90, numeric: true, value: (hit) => state(hit)?.count ?? 1, cell: (hit) => format.number(state(hit)?.count ?? 1) },
      {
        id: 'status',
        title: 'Status',
        width: 250,
        value: (hit) => state(hit)?.status ?? null,
        cell: (hit) => {
          const { status, failed = [], ...others } = state(hit) ?? NO_STATE;
          return (
            <Group gap={4} wrap="nowrap">
              <StatusBadge status={status} />
              {isInMaintenance({ status, ...others }) && <MaintenanceBadge />}
              {failed.length > 0 && (
                <Badge variant="light" color="orange" tt="none">
                  not delivered
                </Badge>
              )}
            </Group>
          );
        },
      },
      showTenant && { id: 'tenant', title: 'Tenant', width: 120, value: ({ _source }) => _source.tenant ?? null },
    ];
    // The rows are the newest ones of the result: sorting them here would hide that.
    return all.filter((column) => column !== false).map((column) => ({ ...column, sortable: false }));
  }, [format, hits, onOpen, onSelect, selected, showTenant]);

  const names = hits.filter((hit) => selected !== 'matching' && selected.has(keyOf(hit))).map(nameOf);
  const count = selected === 'matching' ? Math.min(total, CHANGES_MAX) : names.length;
  const hasAll = selected === 'matching' || (hits.length > 0 && names.length === hits.length);
  const selection = selected === 'matching' ? matching : { alerts: names };
  return (
    <DataTable
      label="alerts"
      rows={hits}
      columns={columns}
      rowKey={keyOf}
      findable={false}
      isSelected={(hit) => keyOf(hit) === openKey}
      height={680}
      tools={
        <>
          <Checkbox
            size="xs"
            label={`Select all ${format.number(hits.length)} shown`}
            checked={hasAll}
            indeterminate={!hasAll && count > 0}
            onChange={() => onSelect(new Set(hasAll ? [] : hits.map(keyOf)))}
          />
          {selected !== 'matching' && hasAll && total > hits.length && (
            <Button size="compact-xs" variant="subtle" onClick={() => onSelect('matching')}>
              Select all {format.number(total)} that match
            </Button>
          )}
          {STATUSES.filter((next) => next !== status).map((next) => (
            <Button key={next} size="compact-xs" variant="default" disabled={count === 0} onClick={() => onChange({ status: next, selection, count })}>
              {ACTIONS[next]}
            </Button>
          ))}
          <Text size="xs" c="dimmed" ms="auto" role="status">
            {count > 0 && `${format.number(count)} selected, `}
            {hits.length < total ? `newest ${format.number(hits.length)} of ${format.number(total)}` : format.number(total)}
            {selected === 'matching' && total > CHANGES_MAX && `; a change covers at most ${format.number(CHANGES_MAX)}`}
          </Text>
        </>
      }
    />
  );
}

/** Stands in for the state of a document that has none. */
const NO_STATE: AlertState = { status: 'open', severity: 'medium' };

const ruleName = ({ _source }: AlertHit): string => _source.rule?.name ?? _source.rule?.id ?? '(no rule)';
