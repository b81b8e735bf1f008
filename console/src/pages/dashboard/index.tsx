import { Alert, Button, CopyButton, TextInput } from '@mantine/core';
import { IconLink, IconPlus, IconRefresh, IconSearch } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { useSearchParams } from 'react-router';
import { fetchAggregatable } from '../../api/field-caps';
import { useFormat } from '../../app/preferences';
import { Answer } from '../../components/Answer';
import { Empty } from '../../components/Empty';
import { PageFrame } from '../../components/PageFrame';
import { kqlAnd, kqlIs } from '../../lib/query-dsl';
import { isReversed, resolveBound, REVERSED } from '../../lib/time-range';
import { SourcePicker } from '../discover/SourcePicker';
import { TimePicker } from '../discover/TimePicker';
import { useSources } from '../discover/use-source';
import classes from './dashboard.module.css';
import { PanelCard } from './PanelCard';
import { PanelDialog } from './PanelDialog';
import { SavedDashboards } from './SavedDashboards';
import type { PanelContext } from './search';
import { CANDIDATES, type DashboardState, decodeState, encodeState, type Panel, PANELS_MAX, rolesOf, webLogPanels } from './state';
import { useRounds } from './use-rounds';

const NO_PANELS: Panel[] = [];

/** Dashboard page: panels of saved searches or custom queries, over one time range and query. */
export default function Dashboard() {
  const format = useFormat();
  const [params, setParams] = useSearchParams();
  const query = params.toString();
  const { state, problems } = useMemo(() => decodeState(query), [query]);
  const update = (patch: Partial<DashboardState>) => setParams(new URLSearchParams(encodeState({ ...state, ...patch })));
  const { round, again, onBusy } = useRounds(state.refreshMs);
  const [editing, setEditing] = useState<number | 'new' | null>(null);
  const sources = useSources();
  const source = state.source || (sources.data?.default ?? '');
  const roles = useQuery({
    queryKey: ['dashboard', 'roles', source],
    queryFn: async ({ signal }) => rolesOf(await fetchAggregatable(source, CANDIDATES, signal)),
    enabled: source !== '' && state.panels === null,
  });
  const panels = useMemo(() => state.panels ?? (roles.data ? webLogPanels(roles.data) : NO_PANELS), [state.panels, roles.data]);
  const { range, text } = state;
  const context = useMemo<Omit<PanelContext, 'timeField'>>(
    () => ({ source, range, text, zone: format.zone, nowMs: round >= 0 ? Date.now() : 0 }),
    [source, range, text, format.zone, round],
  );
  const setPanels = (next: Panel[]) => update({ panels: next });
  const shown = { from: resolveBound(range.from, 'from', context.nowMs, format.zone), to: resolveBound(range.to, 'to', context.nowMs, format.zone) };
  const reversed = isReversed(range, context.nowMs, format.zone);

  return (
    <PageFrame title="Dashboard">
      <div className={classes.bar}>
        <SourcePicker source={source} sources={sources.data ?? null} error={sources.error} onRetry={() => void sources.refetch()} onPick={(name) => update({ source: name })} />
        <QueryField key={text} text={text} onQuery={(next) => update({ text: next })} />
        <TimePicker range={range} refreshMs={state.refreshMs} error={reversed ? REVERSED : null} shown={shown} onChange={(next) => update({ range: next })} onRefresh={(ms) => update({ refreshMs: ms })} />
        <Button size="xs" h={32} leftSection={<IconRefresh size={14} aria-hidden />} onClick={again}>
          Refresh
        </Button>
        <Button size="xs" h={32} variant="default" leftSection={<IconPlus size={14} aria-hidden />} disabled={panels.length >= PANELS_MAX} onClick={() => setEditing('new')}>
          Add panel
        </Button>
        <CopyButton value={window.location.href}>
          {({ copied, copy }) => (
            <Button size="xs" h={32} variant="default" leftSection={<IconLink size={14} aria-hidden />} onClick={copy}>
              {copied ? 'Copied' : 'Copy link'}
            </Button>
          )}
        </CopyButton>
        <SavedDashboards state={{ ...state, source }} panels={panels} onOpen={(next) => update(next)} />
      </div>
      {problems.length > 0 && (
        <Alert role="alert" color="yellow" mb="sm" p="xs" title="Some URL parameters are invalid and were ignored">
          {problems.join('; ')}
        </Alert>
      )}
      <Answer query={sources} what="Sources">
        {() =>
          source === '' ? (
            <Empty title="No events yet">Open the page Send events to send some.</Empty>
          ) : state.panels === null && !roles.data ? (
            <Answer query={roles} what="Fields">
              {() => null}
            </Answer>
          ) : (
            <div className={classes.grid}>
              {panels.map((panel, at) => (
                <div key={`${at} ${panel.title} ${panel.field}`} className={classes.cell} data-wide={panel.kind === 'time' || undefined}>
                  <PanelCard
                    panel={panel}
                    shared={context}
                    sources={sources.data?.sources ?? []}
                    round={round}
                    onEdit={() => setEditing(at)}
                    onRemove={() => setPanels(panels.filter((_, other) => other !== at))}
                    onRetry={again}
                    onBusy={onBusy}
                    onValue={(field, value) => update({ text: kqlAnd(text, kqlIs(field, value)) })}
                  />
                </div>
              ))}
              {panels.length === 0 && <Empty title="No panels">Add a panel, or open a dashboard.</Empty>}
            </div>
          )
        }
      </Answer>
      {editing !== null && (
        <PanelDialog
          panel={editing === 'new' ? null : (panels[editing] ?? null)}
          onSave={(panel) => setPanels(editing === 'new' ? [...panels, panel] : panels.map((other, at) => (at === editing ? panel : other)))}
          onClose={() => setEditing(null)}
        />
      )}
    </PageFrame>
  );
}

/** KQL filter of all panels; Enter applies it. */
function QueryField({ text, onQuery }: { text: string; onQuery: (text: string) => void }) {
  const [typed, setTyped] = useState(text);
  return (
    <form
      className={classes.query}
      onSubmit={(event) => {
        event.preventDefault();
        onQuery(typed);
      }}
    >
      <TextInput
        size="xs"
        styles={{ input: { height: 32 } }}
        ff="monospace"
        aria-label="Filter all panels (KQL)"
        placeholder="Filter all panels (KQL)"
        leftSection={<IconSearch size={14} aria-hidden />}
        value={typed}
        onChange={(event) => setTyped(event.currentTarget.value)}
      />
    </form>
  );
}
