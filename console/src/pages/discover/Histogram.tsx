import { Button, Group, NativeSelect, Text, useComputedColorScheme } from '@mantine/core';
import { IconFilterMinus, IconFilterPlus } from '@tabler/icons-react';
import { lazy, memo, useMemo, useState } from 'react';
import type { Histogram as Result } from '../../api/discover';
import type { Field } from '../../api/fields';
import { useFormat } from '../../app/preferences';
import { restColor, seriesColor, valueColors } from '../../components/chart-colors';
import { Loading } from '../../components/Loading';
import { Menu } from '../../components/Menu';
import { Part } from '../../components/Part';
import { rangeOfBuckets } from '../../lib/brush';
import type { TimeRange } from '../../lib/time-range';
import classes from './Histogram.module.css';
import { shownField } from './multi-fields';
import type { Stage } from './run';
import { StageState } from './StageState';

const HistogramChart = lazy(() => import('./HistogramChart'));

const INTERVALS = ['1s', '10s', '30s', '1m', '5m', '10m', '30m', '1h', '3h', '12h', '1d', '1w', '1M'];
/** Maximum number of fields offered for the breakdown. */
const SPLITS_LISTED = 60;

export interface Series {
  label: string;
  values: number[];
  color: string;
  sum: number;
  /** False for the events without a listed value. */
  named: boolean;
}

interface Props {
  stage: Stage<Result>;
  fields: Field[];
  splitBy: string | null | undefined;
  interval: string | null;
  onRange: (range: TimeRange) => void;
  onSplit: (field: string | null | undefined) => void;
  onInterval: (interval: string | null) => void;
  onFilter: (field: string, value: string, not: boolean) => void;
  onRetry: () => void;
  onGoOn: () => void;
  onBackground: () => void;
}

/** Events over time: bars with a brush, a legend to filter by, and the same data as a table. */
export const Histogram = memo(function Histogram(props: Props) {
  const { stage, fields, splitBy, interval, onRange, onSplit, onInterval, onFilter } = props;
  const format = useFormat();
  const dark = useComputedColorScheme('light', { getInitialValueInEffect: false }) === 'dark';
  const [asTable, setAsTable] = useState(false);
  const { result } = stage;
  const series = useMemo(() => seriesOf(result, dark), [result, dark]);
  const loading = stage.status === 'loading' || stage.status === 'partial';
  const stale = (stage.stale && loading) || undefined;
  const splitName = splitBy === undefined ? (result?.split_by ?? null) : splitBy;
  return (
    <section className={classes.root} aria-label="Events over time" aria-busy={loading}>
      <div className={classes.tools}>
        {result && series.length > 0 && (
          <ul className={classes.legend} aria-label="Legend" aria-busy={loading} data-stale={stale}>
            {series.map((one) => (
              <li key={one.label}>
                <LegendItem label={one.label} color={one.color} named={one.named} text={format.compact(one.sum)} field={result.split_by} onFilter={onFilter} />
              </li>
            ))}
          </ul>
        )}
        <Group gap={6} ms="auto" wrap="nowrap" className={classes.controls ?? ''}>
          {stage.progress && loading && (
            <Text size="xs" c="dimmed" role="status">
              {format.number(stage.progress.done)} of {format.number(stage.progress.total)} shards
            </Text>
          )}
          <SplitSelect fields={fields} split={splitName} onSplit={onSplit} />
          <WidthSelect interval={interval} made={result?.interval ?? null} onInterval={onInterval} />
          <Button variant="subtle" color="gray" size="compact-xs" aria-pressed={asTable} onClick={() => setAsTable(!asTable)}>
            {asTable ? 'Chart' : 'Table'}
          </Button>
        </Group>
      </div>
      <StageState name="Histogram" {...props} />
      {result && !asTable && (
        <Part lost="Failed to load the chart" fallback={<div className={classes.space} />}>
          <div className={classes.chart} data-stale={stale}>
            <HistogramChart result={result} series={series} onRange={onRange} />
          </div>
        </Part>
      )}
      {result && asTable && (
        <div data-stale={stale}>
          <BucketTable result={result} series={series} onRange={onRange} />
        </div>
      )}
      {!result && loading && (
        <div className={classes.space}>
          <Loading label="Counting events over time" />
        </div>
      )}
    </section>
  );
});

/** Select of the breakdown field. */
const SplitSelect = memo(function SplitSelect({ fields, split, onSplit }: { fields: Field[]; split: string | null; onSplit: Props['onSplit'] }) {
  const byName = useMemo(() => new Map(fields.map((field) => [field.name, field])), [fields]);
  const names = fields.filter((field) => field.aggregatable && field.in_use && (field.type === 'keyword' || field.type === 'boolean')).slice(0, SPLITS_LISTED).map(({ name }) => name);
  const options = [...(split && !names.includes(split) ? [split] : []), ...names].map((name) => ({ value: name, label: shownField(name, byName) }));
  return (
    <NativeSelect
      size="xs"
      className={classes.select ?? ''}
      aria-label="Break down by"
      value={split ?? ''}
      data={[{ value: '', label: 'No breakdown' }, ...options]}
      onChange={(event) => onSplit(event.currentTarget.value || null)}
    />
  );
});

/** Select of the interval. `made` is the interval that the server chose. */
const WidthSelect = memo(function WidthSelect({ interval, made, onInterval }: { interval: string | null; made: string | null; onInterval: Props['onInterval'] }) {
  return (
    <NativeSelect
      size="xs"
      className={classes.select ?? ''}
      aria-label="Interval"
      value={interval ?? ''}
      data={[{ value: '', label: interval === null && made !== null ? `auto: ${made}` : 'auto' }, ...new Set([...INTERVALS, ...(interval ? [interval] : [])])]}
      onChange={(event) => onInterval(event.currentTarget.value || null)}
    />
  );
});

function seriesOf(result: Result | null, dark: boolean): Series[] {
  if (!result) return [];
  const sum = (values: number[]) => values.reduce((all, value) => all + value, 0);
  const colors = valueColors(result.split_by ?? '', result.splits, dark);
  const made = result.splits.map((label, at) => {
    const values = result.buckets.map((bucket) => bucket.splits[label] ?? 0);
    return { label, values, color: colors[at] ?? restColor(dark), sum: sum(values), named: true };
  });
  const other = result.buckets.map((bucket) => bucket.other);
  const others = sum(other);
  if (others > 0 || made.length === 0) {
    const label = made.length === 0 ? 'Events' : 'Other';
    const values = made.length === 0 ? result.buckets.map((bucket) => bucket.count) : other;
    made.push({ label, values, color: made.length === 0 ? seriesColor(0, dark) : restColor(dark), sum: sum(values), named: false });
  }
  return made;
}

const LegendItem = memo(function LegendItem({ label, color, named, text, field, onFilter }: Pick<Series, 'label' | 'color' | 'named'> & { text: string; field: string | null; onFilter: Props['onFilter'] }) {
  const body = (
    <>
      <span className={classes.swatch} style={{ background: color }} aria-hidden />
      <bdi className={classes.name}>{label === '' ? '(empty)' : label}</bdi>
      <span className={classes.sum} data-count>{text}</span>
    </>
  );
  if (!named || !field) return <span className={classes.item}>{body}</span>;
  return (
    <Menu position="bottom-start">
      <Menu.Target>
        <button type="button" className={classes.item}>
          {body}
        </button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item leftSection={<IconFilterPlus size={14} aria-hidden />} onClick={() => onFilter(field, label, false)}>
          Include
        </Menu.Item>
        <Menu.Item leftSection={<IconFilterMinus size={14} aria-hidden />} onClick={() => onFilter(field, label, true)}>
          Exclude
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
});

function BucketTable({ result, series, onRange }: { result: Result; series: Series[]; onRange: Props['onRange'] }) {
  const format = useFormat();
  return (
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- it scrolls, also by keys.
    <div className={classes.tableScroll} tabIndex={0} role="region" aria-label="Events over time as a table">
      <table className={classes.table}>
        <thead>
          <tr>
            <th scope="col">From</th>
            <th scope="col">Events</th>
            {series.length > 1 &&
              series.map(({ label }) => (
                <th key={label} scope="col">
                  {label}
                </th>
              ))}
          </tr>
        </thead>
        <tbody>
          {result.buckets.map((bucket, at) => (
            <tr key={bucket.from_ms}>
              <th scope="row">
                <button
                  type="button"
                  className={classes.zoom}
                  onClick={() => {
                    const range = rangeOfBuckets(result.buckets, at, at);
                    if (range) onRange(range);
                  }}
                >
                  {format.time(bucket.from_ms)}
                </button>
              </th>
              <td>{format.number(bucket.count)}</td>
              {series.length > 1 && series.map(({ label, values }) => <td key={label}>{format.number(values[at] ?? 0)}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
