import { Anchor, Button, Group, Stack, Switch, Text, Tooltip } from '@mantine/core';
import { IconDownload, IconPlus, IconUpload } from '@tabler/icons-react';
import { useMutation } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { Link } from 'react-router';
import { SEVERITIES } from '../../api/alerts';
import { deleteRule, exportRules, fetchRule, putRule, type RuleStats } from '../../api/detection-rules';
import { useFormat } from '../../app/preferences';
import { Answer } from '../../components/Answer';
import { Confirm } from '../../components/Confirm';
import { type Column, DataTable } from '../../components/DataTable';
import { Empty } from '../../components/Empty';
import { Failed } from '../../components/Failed';
import { PageFrame } from '../../components/PageFrame';
import { SeverityBadge } from '../../components/SeverityBadge';
import { saveFile } from '../../lib/save-file';
import { Channels } from './Channels';
import { ImportRules } from './ImportRules';
import { RuleTabs } from './RuleTabs';
import { alertsPath, holesText, ruleRows, scopeOf, scopeTitle, type RuleAlerts, type RuleRow } from './rows';
import { DayBars } from './DayBars';
import { useRuleAlerts, useRuleCache, useRules, useRuleStats } from './use-rules';

const NO_ALERTS: ReadonlyMap<string, RuleAlerts> = new Map();
const NO_STATS: Record<string, RuleStats> = {};

/** All rules with their alerts, and the channels. */
export function RuleList() {
  const rules = useRules();
  const alerts = useRuleAlerts();
  const stats = useRuleStats();
  const cache = useRuleCache();
  const [importing, setImporting] = useState(false);
  const [deleting, setDeleting] = useState<RuleRow | null>(null);
  const toggle = useMutation({
    mutationFn: async ({ id, enabled }: { id: string; enabled: boolean }) => {
      // The newest definition: another operator may have changed it since the list was fetched.
      const definition = { ...(await fetchRule(id)), enabled };
      await putRule(id, definition);
      cache.stored(id, definition);
    },
  });
  const exporting = useMutation({ mutationFn: async () => saveFile(await exportRules(), 'rules.ndjson') });
  const { mutate } = toggle;
  const rows = useMemo(() => ruleRows(rules.data ?? {}, alerts.data ?? NO_ALERTS, stats.data ?? NO_STATS), [rules.data, alerts.data, stats.data]);
  const columns = useColumns(scopeTitle(rows), { onToggle: mutate, onDelete: setDeleting });
  return (
    <PageFrame
      title="Rules"
      about="Detection rules that event pipelines evaluate on each event, and the channels that deliver their alerts."
      actions={
        <>
          <Button size="xs" variant="default" leftSection={<IconUpload size={14} aria-hidden />} onClick={() => setImporting(true)}>
            Import rules
          </Button>
          <Button size="xs" variant="default" leftSection={<IconDownload size={14} aria-hidden />} loading={exporting.isPending} disabled={rows.length === 0} onClick={() => exporting.mutate()}>
            Export
          </Button>
          <Button size="xs" component={Link} to="/rules/new/query" leftSection={<IconPlus size={14} aria-hidden />}>
            Create rule
          </Button>
        </>
      }
    >
      <RuleTabs value="rules">
        <Stack>
          {toggle.error && <Failed title={`Rule ${toggle.variables?.id ?? ''} not changed`} error={toggle.error} compact />}
          {exporting.error && <Failed title="Rules not exported" error={exporting.error} compact />}
          {stats.error && <Failed title="Failed to load the pipelines and costs of the rules" error={stats.error} retry={() => void stats.refetch()} compact />}
          {alerts.error && <Failed title="Failed to count the alerts" error={alerts.error} retry={() => void alerts.refetch()} compact />}
          <Answer query={rules} what="Rules">
            {() => (
              <>
                <DataTable label="rules" rows={rows} columns={columns} rowKey={({ id }) => id} initialSort="-count" height={620} hideWhenEmpty />
                {rows.length === 0 && <Empty title="No rules">Create a rule from a query, or import rules from Sigma files or Kibana. Event pipelines evaluate them on each new event.</Empty>}
              </>
            )}
          </Answer>
          <Channels />
        </Stack>
      </RuleTabs>
      {importing && <ImportRules onImported={cache.imported} onClose={() => setImporting(false)} />}
      {deleting && (
        <Confirm
          title="Delete rule"
          action="Delete rule"
          onConfirm={async () => {
            await deleteRule(deleting.id);
            cache.removed(deleting.id);
          }}
          onClose={() => setDeleting(null)}
        >
          Pipelines stop evaluating <b>{deleting.name}</b>. Its alerts stay.
        </Confirm>
      )}
    </PageFrame>
  );
}

interface Handlers {
  onToggle: (change: { id: string; enabled: boolean }) => void;
  onDelete: (row: RuleRow) => void;
}

/** Columns that fit on a screen of 1280 pixels. `scope` is the title of the column of tenants and channels. */
function useColumns(scope: string | null, { onToggle, onDelete }: Handlers): Column<RuleRow>[] {
  const format = useFormat();
  return useMemo(
    () => [
      {
        id: 'enabled',
        title: 'Enabled',
        width: 72,
        value: ({ enabled }) => (enabled ? 'enabled' : 'disabled'),
        cell: ({ id, name, enabled }) => <Switch size="xs" aria-label={`Enable ${name}`} checked={enabled} onChange={() => onToggle({ id, enabled: !enabled })} />,
      },
      {
        id: 'name',
        title: 'Rule',
        value: ({ name }) => name,
        cell: ({ id, name }) => (
          <Anchor component={Link} to={`/rules/${encodeURIComponent(id)}`} size="sm">
            {name}
          </Anchor>
        ),
      },
      { id: 'type', title: 'Type', width: 85, value: ({ type }) => type.replace('_', ' ') },
      {
        id: 'severity',
        title: 'Severity',
        width: 120,
        value: ({ severity }) => severity,
        sortValue: ({ severity }) => SEVERITIES.indexOf(severity),
        cell: ({ severity }) => <SeverityBadge severity={severity} />,
      },
      {
        id: 'evaluation',
        title: 'Evaluated by',
        width: 112,
        value: ({ evaluation }) => evaluation?.text ?? null,
        cell: ({ evaluation }) => <span style={evaluation?.isProblem ? { color: 'var(--mantine-color-error)' } : undefined}>{evaluation?.text ?? '–'}</span>,
      },
      ...(scope === null ? [] : [{ id: 'scope', title: scope, width: 138, value: (row: RuleRow) => scopeOf(row) || null }]),
      {
        id: 'cpu',
        title: 'CPU',
        width: 85,
        numeric: true,
        value: ({ cpu }) => cpu,
        cell: ({ cpu, throttled }) => (
          <>
            {cpu === null ? '–' : `${format.number(cpu)} %`}
            {throttled && (
              <Text size="xs" c="red" title={throttled}>
                over budget
              </Text>
            )}
          </>
        ),
      },
      {
        id: 'holes',
        title: 'Holes',
        width: 66,
        numeric: true,
        value: ({ holes }) => holes?.count ?? null,
        cell: ({ id, holes }) => {
          if (holes === null) return '–';
          const text = holesText(holes, format.minute);
          return (
            <Tooltip label={text} multiline maw={320}>
              {holes.count === 0 ? (
                <span>{format.number(0)}</span>
              ) : (
                <Anchor component={Link} to={`/rules/${encodeURIComponent(id)}`} size="sm" c="red" aria-label={`${format.number(holes.count)} coverage holes: ${text}`}>
                  {format.number(holes.count)}
                </Anchor>
              )}
            </Tooltip>
          );
        },
      },
      {
        id: 'count',
        title: 'Alerts, 7 d',
        width: 120,
        numeric: true,
        value: ({ count }) => count,
        cell: ({ id, name, count, days }) => (
          <Group gap={8} wrap="nowrap" justify="flex-end">
            <DayBars label={`Alerts of ${name} per day`} days={days} />
            {count === 0 ? (
              format.number(0)
            ) : (
              <Anchor component={Link} to={alertsPath(id)} size="sm">
                {format.number(count)}
              </Anchor>
            )}
          </Group>
        ),
      },
      { id: 'last', title: 'Last alert', width: 165, numeric: true, value: ({ lastMs }) => lastMs, cell: ({ lastMs }) => (lastMs === null ? '–' : format.minute(lastMs)) },
      {
        id: 'actions',
        title: '',
        width: 68,
        sortable: false,
        value: () => null,
        cell: (row) => (
          <Button size="compact-xs" variant="subtle" c="red" aria-label={`Delete ${row.name}`} onClick={() => onDelete(row)}>
            Delete
          </Button>
        ),
      },
    ],
    [format, scope, onToggle, onDelete],
  );
}
