import 'uplot/dist/uPlot.min.css';
import { useComputedColorScheme } from '@mantine/core';
import { useResizeObserver } from '@mantine/hooks';
import { type KeyboardEvent, memo, useEffect, useMemo, useRef, useState } from 'react';
import uPlot from 'uplot';
import type { Histogram as Result, HistogramBucket } from '../../api/discover';
import { useFormat } from '../../app/preferences';
import { AXIS_X, inks, LABEL_PX } from '../../components/chart-colors';
import { brushedRange, bucketAt, rangeOfBuckets } from '../../lib/brush';
import { stack, timeTicks } from '../../lib/chart';
import type { TimeRange } from '../../lib/time-range';
import type { Series } from './Histogram';
import classes from './Histogram.module.css';

const HEIGHT_PX = 130;
/** Shorter drags count as clicks. */
const DRAG_PX_MIN = 4;

interface Props {
  result: Result;
  series: Series[];
  onRange: (range: TimeRange) => void;
}

interface Pointed {
  at: number;
  /** Pixels from the left of the box. */
  left: number;
}

/** Histogram bars with a brush, also usable with the arrow keys. */
export default memo(function HistogramChart({ result, series, onRange }: Props) {
  const format = useFormat();
  const dark = useComputedColorScheme('light', { getInitialValueInEffect: false }) === 'dark';
  const [box, { width }] = useResizeObserver<HTMLDivElement>();
  const target = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [pointed, setPointed] = useState<Pointed | null>(null);
  /** Bar reached with the arrow keys, and the bar where the Shift selection started. */
  const [keys, setKeys] = useState<{ at: number; anchor: number } | null>(null);
  const { buckets } = result;
  const latest = useRef({ buckets, onRange });
  latest.current = { buckets, onRange };

  useEffect(() => {
    if (!target.current || width < 80 || buckets.length === 0) return;
    const chart = draw(target.current, width, result, series, dark, format, {
      onBrush: (fromMs, toMs) => {
        const range = brushedRange(latest.current.buckets, fromMs, toMs);
        if (range) latest.current.onRange(range);
      },
      onPoint: setPointed,
    });
    plot.current = chart;
    return () => {
      plot.current = null;
      chart.destroy();
    };
  }, [result, series, width, dark, format, buckets.length]);

  const press = (event: KeyboardEvent) => {
    const last = buckets.length - 1;
    const at = keys?.at ?? -1;
    const next = { ArrowLeft: Math.max(0, at - 1), ArrowRight: Math.min(last, at + 1), Home: 0, End: last }[event.key];
    if (next !== undefined) setKeys({ at: next, anchor: event.shiftKey && keys ? keys.anchor : next });
    else if (event.key === 'Enter' && keys) {
      const range = rangeOfBuckets(buckets, keys.at, keys.anchor);
      if (range) onRange(range);
    } else if (event.key === 'Escape' && keys) setKeys(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };

  const marked = keys && plot.current ? keyMark(plot.current, buckets, keys.at, keys.anchor) : null;
  const told = keys ? buckets[keys.at] : undefined;
  const total = useMemo(() => buckets.reduce((sum, { count }) => sum + count, 0), [buckets]);
  return (
    // A slider over the bars: arrow keys move, Shift selects, Enter zooms.
    <div
      ref={box}
      className={classes.box}
      role="slider"
      tabIndex={0}
      aria-label={`Events over time: ${format.number(total)} in ${format.number(buckets.length)} bars. Arrow keys move, Shift selects a range, Enter zooms in.`}
      aria-valuemin={0}
      aria-valuemax={Math.max(0, buckets.length - 1)}
      aria-valuenow={keys?.at ?? 0}
      aria-valuetext={told ? `${format.minute(told.from_ms)}: ${format.number(told.count)} events` : 'no bar selected'}
      onKeyDown={press}
      onBlur={() => setKeys(null)}
    >
      <div ref={target} />
      {marked && <div className={classes.cursor} style={marked} />}
      <Tip pointed={keys && marked ? { at: keys.at, left: marked.left } : pointed} width={width} result={result} series={series} />
    </div>
  );
});

function Tip({ pointed, width, result, series }: { pointed: Pointed | null; width: number; result: Result; series: Series[] }) {
  const format = useFormat();
  const bucket = pointed && result.buckets[pointed.at];
  if (!bucket) return null;
  const side = pointed.left > width / 2 ? { right: width - pointed.left + 14 } : { left: pointed.left + 14 };
  return (
    <div className={classes.tip} style={side} aria-hidden>
      <b>{result.interval_ms >= 60_000 ? format.minute(bucket.from_ms) : format.time(bucket.from_ms)}</b> · {format.number(bucket.count)}
      {series.length > 1 &&
        series.map(
          ({ label, color, values }) =>
            (values[pointed.at] ?? 0) > 0 && (
              <div key={label} className={classes.tipRow}>
                <span className={classes.swatch} style={{ background: color }} />
                <bdi className={classes.name}>{label}</bdi>
                <span>{format.number(values[pointed.at] ?? 0)}</span>
              </div>
            ),
        )}
    </div>
  );
}

function keyMark(chart: uPlot, buckets: readonly HistogramBucket[], at: number, anchor: number) {
  const first = buckets[Math.min(at, anchor)];
  const last = buckets[Math.max(at, anchor)];
  if (!first || !last) return null;
  const scale = (ms: number) => chart.valToPos(ms / 1000, 'x');
  const { left: offset, top, height } = chart.over.getBoundingClientRect();
  const root = chart.root.getBoundingClientRect();
  const left = scale(first.from_ms) + offset - root.left;
  return { left, top: top - root.top, height, width: Math.max(2, scale(last.to_ms) - scale(first.from_ms)) };
}

interface Handlers {
  onBrush: (fromMs: number, toMs: number) => void;
  onPoint: (pointed: Pointed | null) => void;
}

function draw(target: HTMLElement, width: number, result: Result, series: Series[], dark: boolean, format: ReturnType<typeof useFormat>, { onBrush, onPoint }: Handlers): uPlot {
  const { buckets } = result;
  const { ink, line } = inks(dark);
  const fromMs = buckets[0]?.from_ms ?? 0;
  const toMs = buckets.at(-1)?.to_ms ?? 1;
  const tick = timeTicks(format.zone, format.locale);
  const sums = stack(series.map(({ values }) => values));
  // The highest sum first: lower sums are drawn over it.
  const order = series.map((_, at) => at).reverse();
  const chart = new uPlot(
    {
      width: width - 12,
      height: HEIGHT_PX,
      padding: [8, LABEL_PX / 2, 0, 0],
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), format.zone),
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
      scales: { x: { range: () => [fromMs / 1000, toMs / 1000] }, y: { range: (_, __, max) => [0, max > 0 ? max * 1.06 : 1] } },
      axes: [
        { ...AXIS_X, stroke: ink, ticks: { stroke: line, size: 4 }, values: (_, splits, __, ___, apart) => splits.map((seconds) => tick(seconds * 1000, apart * 1000)) },
        { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { show: false }, size: 48, space: 34, font: '11px system-ui', values: (_, splits) => splits.map((value) => (Number.isInteger(value) ? format.compact(value) : '')) },
      ],
      series: [{}, ...order.map((at): uPlot.Series => ({ stroke: 'transparent', width: 0, fill: series[at]?.color ?? ink, points: { show: false }, paths: (chart, index) => bars(chart, index, buckets) }))],
      hooks: {
        setSelect: [
          (chart) => {
            const { left, width } = chart.select;
            if (width >= DRAG_PX_MIN) onBrush(chart.posToVal(left, 'x') * 1000, chart.posToVal(left + width, 'x') * 1000);
            chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          },
        ],
        setCursor: [
          (chart) => {
            const { left } = chart.cursor;
            if (left === undefined || left < 0) return onPoint(null);
            onPoint({ at: bucketAt(buckets, chart.posToVal(left, 'x') * 1000), left: left + chart.over.offsetLeft });
          },
        ],
      },
    },
    [buckets.map(({ from_ms: ms }) => ms / 1000), ...order.map((at) => sums[at] ?? [])],
    target,
  );
  chart.over.addEventListener('click', (event) => {
    // The end of a brush also fires a click; `setSelect` above has handled it.
    if (event.detail === 2) onBrush(chart.posToVal(event.offsetX, 'x') * 1000, chart.posToVal(event.offsetX, 'x') * 1000);
  });
  return chart;
}

/**
 * Draws each bar from the start to the end of its bucket: calendar months differ in length, and the range cuts the
 * first and last bucket.
 */
function bars(chart: uPlot, index: number, buckets: readonly HistogramBucket[]): uPlot.Series.Paths {
  const path = new Path2D();
  const floor = chart.valToPos(0, 'y', true);
  const gap = chart.bbox.width / buckets.length > 4 * devicePixelRatio ? devicePixelRatio : 0;
  const values = chart.data[index] ?? [];
  buckets.forEach((bucket, at) => {
    const value = values[at];
    if (!value) return;
    const left = Math.round(chart.valToPos(bucket.from_ms / 1000, 'x', true));
    const right = Math.round(chart.valToPos(bucket.to_ms / 1000, 'x', true));
    const top = Math.min(Math.round(chart.valToPos(value, 'y', true)), Math.round(floor) - 1);
    path.rect(left, top, Math.max(1, right - left - gap), floor - top);
  });
  return { fill: path, stroke: null };
}
