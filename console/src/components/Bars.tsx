import { Text } from '@mantine/core';
import type { ReactNode } from 'react';
import classes from './Bars.module.css';

export interface Bar {
  key: string;
  /** What the bar is of; may be a link. */
  label: ReactNode;
  value: number;
  /** How the value is written. */
  text: string;
}

interface Props {
  /** What is listed, for screen readers. */
  label: string;
  bars: Bar[];
  /** What a full bar stands for; the largest value without it. */
  max?: number;
}

/** Values beside each other, each as text with a bar behind it: read as a list, seen as a chart. */
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
