import { Text } from '@mantine/core';
import type { ReactNode } from 'react';
import classes from './Bars.module.css';

export interface Bar {
  key: string;
  /** Label of the bar; may be a link. */
  label: ReactNode;
  value: number;
  /** Formatted value. */
  text: string;
}

interface Props {
  /** Name of the list for screen readers. */
  label: string;
  bars: Bar[];
  /** Value of a full bar; the largest value by default. */
  max?: number;
}

/** Horizontal bar chart as an accessible list: each value is text with a bar behind it. */
export function Bars({ label, bars, max }: Props) {
  const full = max ?? Math.max(...bars.map((bar) => bar.value), 0);
  return (
    <ul className={classes.list} aria-label={label}>
      {bars.map((bar) => (
        <li key={bar.key} className={classes.row}>
          <span className={classes.fill} style={{ width: full > 0 ? `${(bar.value / full) * 100}%` : 0 }} aria-hidden />
          <span className={classes.label}>{bar.label}</span>
          <Text span size="xs" className={classes.value}>
            {bar.text}
          </Text>
        </li>
      ))}
    </ul>
  );
}
