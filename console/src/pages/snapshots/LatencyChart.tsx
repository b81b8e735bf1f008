import { Group, Text } from '@mantine/core';
import { useFormat } from '../../app/preferences';
import classes from './LatencyChart.module.css';
import { type LatencyRow, logScale } from './latencies';

/** Latencies by request type on one logarithmic axis, each row also in numbers. */
export function LatencyChart({ rows }: { rows: LatencyRow[] }) {
  const format = useFormat();
  const scale = logScale(rows.flatMap(({ p50, max }) => [p50, max]));
  const percent = (value: number) => `${scale.at(value)}%`;
  const ms = (value: number) => (value < 10 ? `${new Intl.NumberFormat(format.locale, { maximumSignificantDigits: 2 }).format(value)} ms` : format.duration(value));
  return (
    <>
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex */}
      <div className={classes.scroll} tabIndex={0} role="region" aria-label="Latencies by request type">
        <table className={classes.table}>
          <thead>
            <tr>
              <th scope="col">Request type</th>
              <th scope="col" className={classes.numeric}>
                Count
              </th>
              <th scope="col" className={classes.numeric}>
                Throughput
              </th>
              <th scope="col" className={classes.chart}>
                <div className={classes.axis}>
                  {scale.ticks.map((tick) => (
                    <span key={tick} style={{ insetInlineStart: percent(tick) }}>
                      {ms(tick)}
                    </span>
                  ))}
                </div>
              </th>
              <th scope="col" className={classes.numeric}>
                Median
              </th>
              <th scope="col" className={classes.numeric}>
                p90
              </th>
              <th scope="col" className={classes.numeric}>
                p99
              </th>
              <th scope="col" className={classes.numeric}>
                Max
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.kind}>
                <th scope="row">{row.kind}</th>
                <td className={classes.numeric}>{format.number(row.count)}</td>
                <td className={classes.numeric}>{row.bytes > 0 ? `${format.bytes(row.bytesPerSecond)}/s` : '–'}</td>
                <td className={classes.chart} aria-hidden>
                  <div className={classes.track}>
                    {scale.ticks.map((tick) => (
                      <span key={tick} className={classes.grid} style={{ insetInlineStart: percent(tick) }} />
                    ))}
                    <span className={classes.rest} style={{ insetInlineStart: percent(row.p50), width: `${scale.at(row.max) - scale.at(row.p50)}%` }} />
                    <span className={classes.most} style={{ insetInlineStart: percent(row.p50), width: `${scale.at(row.p90) - scale.at(row.p50)}%` }} />
                    <span className={classes.median} style={{ insetInlineStart: percent(row.p50) }} />
                    <span className={classes.max} style={{ insetInlineStart: percent(row.max) }} />
                  </div>
                </td>
                {[row.p50, row.p90, row.p99, row.max].map((value, at) => (
                  <td key={at} className={classes.numeric}>
                    {ms(value)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <Group mt="xs">
        <Text size="xs" c="dimmed">
          Dark line: median. Bar: up to p90. Ring: slowest request.
        </Text>
      </Group>
    </>
  );
}
