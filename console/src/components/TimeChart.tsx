import 'uplot/dist/uPlot.min.css';
import { useComputedColorScheme } from '@mantine/core';
import { useResizeObserver } from '@mantine/hooks';
import { useEffect, useRef } from 'react';
import uPlot from 'uplot';
import { useFormat } from '../app/preferences';
import { spanOf, stack, timeTicks } from '../lib/chart';
import { AXIS_X, inks, LABEL_PX } from './chart-colors';
import classes from './TimeChart.module.css';

export interface Series {
  label: string;
  /** One value per time; null if missing. */
  values: (number | null)[];
  color: string;
}

interface Props {
  /** Description for screen readers. */
  label: string;
  /** Start of each bucket: milliseconds since the epoch, ascending. */
  times: number[];
  /** Width of a single bucket; several buckets are as wide as their distance. */
  intervalMs: number;
  series: Series[];
  kind: 'lines' | 'bars';
  /** Formats a value. */
  show: (value: number) => string;
  height?: number;
}

/** Chart of values over time: lines or stacked bars. The legend below shows the values under the pointer. */
export function TimeChart({ label, times, intervalMs, series, kind, show, height = 200 }: Props) {
  const format = useFormat();
  const dark = useComputedColorScheme('light', { getInitialValueInEffect: false }) === 'dark';
  const [box, { width }] = useResizeObserver<HTMLDivElement>();
  const target = useRef<HTMLDivElement>(null);

  useEffect(() => {
    if (!target.current || width < 50 || times.length === 0) return;
    const { ink, line } = inks(dark);
    const [fromMs, toMs] = spanOf(times, intervalMs);
    const tick = timeTicks(format.zone, format.locale);
    const sums = kind === 'bars' ? stack(series.map(({ values }) => values)) : series.map(({ values }) => values);
    // The highest sum first: lower sums are drawn over it.
    const order = series.map((_, at) => at);
    if (kind === 'bars') order.reverse();
    const bars = uPlot.paths.bars?.({ size: [0.9, 60], align: 1 });
    const chart = new uPlot(
      {
        width,
        height,
        padding: [8, LABEL_PX / 2, 0, 0],
        tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), format.zone),
        cursor: { drag: { x: false, y: false }, points: { show: kind === 'lines' } },
        legend: { live: true, markers: { width: 0, fill: (_, at) => series[order[at - 1] ?? 0]?.color ?? ink } },
        scales: { x: { range: () => [fromMs / 1000, toMs / 1000] }, y: { range: (_, __, max) => [0, max > 0 ? max * 1.05 : 1] } },
        axes: [
          { ...AXIS_X, stroke: ink, ticks: { stroke: line, size: 4 }, values: (_, splits, __, ___, apart) => splits.map((seconds) => tick(seconds * 1000, apart * 1000)) },
          { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { show: false }, size: 70, values: (_, splits) => splits.map(show) },
        ],
        series: [
          { label: 'Time', value: (_, seconds) => (seconds === null ? '–' : format.minute(seconds * 1000)) },
          ...order.map((at): uPlot.Series => {
            const { label: name = '', color = ink, values = [] } = series[at] ?? {};
            return {
              label: name,
              stroke: color,
              width: kind === 'bars' ? 0 : 1.6,
              ...(kind === 'bars' && { fill: color, ...(bars && { paths: bars }) }),
              points: { show: kind === 'lines' && times.length < 3 },
              value: (_, __, ___, index) => {
                const value = index === null || index === undefined ? null : values[index];
                return value === null || value === undefined ? '–' : show(value);
              },
            };
          }),
        ],
      },
      [times.map((ms) => ms / 1000), ...order.map((at) => sums[at] ?? [])],
      target.current,
    );
    return () => chart.destroy();
  }, [times, intervalMs, series, kind, show, height, width, dark, format]);

  return (
    <div ref={box} className={classes.box} role="img" aria-label={label}>
      <div ref={target} className={classes.chart} />
    </div>
  );
}
