import { Button, Text } from '@mantine/core';
import { IconAntennaBars5, IconCalendarTime, IconChevronDown } from '@tabler/icons-react';
import { lazy, memo, useId, useState } from 'react';
import { useFormat } from '../../app/preferences';
import { Part } from '../../components/Part';
import { Popover } from '../../components/Popover';
import { describeRange, type TimeRange } from '../../lib/time-range';
import classes from './TimePicker.module.css';

const TimeMenu = lazy(() => import('./TimeMenu'));

interface Props {
  range: TimeRange;
  refreshMs: number;
  live?: boolean;
  /** Error of the range, if it is invalid. */
  error?: string | null;
  /** Absolute range of the displayed response in ms, the initial value of the custom range. */
  shown: { from: number | null; to: number | null } | null;
  onChange: (range: TimeRange) => void;
  onRefresh: (ms: number) => void;
  /** Absent if there is no live tail. */
  onLive?: (live: boolean) => void;
}

/** Time picker: quick, relative and custom ranges, auto-refresh and the live tail. */
export const TimePicker = memo(function TimePicker(props: Props) {
  const { range, refreshMs, live = false, error = null, onLive } = props;
  const messageId = useId();
  const format = useFormat();
  const [open, setOpen] = useState(false);
  const label = describeRange(range, format);
  const every = refreshMs > 0 ? ` · every ${format.duration(refreshMs)}` : '';
  return (
    <div className={classes.box}>
      <div className={classes.root}>
        <Popover opened={open} onChange={setOpen} position="bottom-end" width={560}>
          <Popover.Target>
            <Button
              variant="default"
              size="xs"
              h={32}
              leftSection={<IconCalendarTime size={14} aria-hidden />}
              rightSection={<IconChevronDown size={13} aria-hidden />}
              aria-label={`Time: ${label}${every}`}
              aria-haspopup="dialog"
              data-time
              {...(error !== null && { 'data-error': true, 'aria-describedby': messageId })}
              onClick={() => setOpen(!open)}
            >
              {label}
              {every}
            </Button>
          </Popover.Target>
          <Popover.Dropdown p={0} aria-label="Time range">
            {open && (
              <Part lost="Failed to load the time picker">
                <TimeMenu {...props} close={() => setOpen(false)} />
              </Part>
            )}
          </Popover.Dropdown>
        </Popover>
        {onLive && (
          <Button
            variant={live ? 'filled' : 'default'}
            color={live ? 'red' : undefined}
            size="xs"
            h={32}
            aria-pressed={live}
            leftSection={<IconAntennaBars5 size={14} aria-hidden />}
            onClick={() => onLive(!live)}
          >
            Live
          </Button>
        )}
      </div>
      {error !== null && (
        <Text id={messageId} role="alert" size="xs" c="var(--mantine-color-error)" className={classes.message ?? ''} dir="auto">
          {error}
        </Text>
      )}
    </div>
  );
});
