import '@mantine/dates/styles.css';
import { Button, Group, NumberInput, Select, Stack, Text } from '@mantine/core';
import { DateTimePicker } from '@mantine/dates';
import { type FormEvent, useState } from 'react';
import { BROWSER_ZONE, resolveZone, useFormat, useZonePreference } from '../../app/preferences';
import { absoluteRange, parseRelative, QUICK_RANGES, relativeText, resolveBound, REVERSED, type TimeRange, type Unit, UNITS } from '../../lib/time-range';
import { parseWallTextNear, wallText } from '../../lib/zoned-time';
import classes from './TimePicker.module.css';

const UNIT_LABELS: Record<Unit, string> = { s: 'seconds', m: 'minutes', h: 'hours', d: 'days', w: 'weeks', M: 'months', y: 'years' };
const REFRESHES_MS = [0, 5000, 10_000, 30_000, 60_000, 300_000];

interface Props {
  range: TimeRange;
  refreshMs: number;
  shown: { from: number | null; to: number | null } | null;
  onChange: (range: TimeRange) => void;
  onRefresh: (ms: number) => void;
  close: () => void;
}

/** Dropdown of the time picker. */
export default function TimeMenu({ range, refreshMs, shown, onChange, onRefresh, close }: Props) {
  const format = useFormat();
  const pick = (range: TimeRange) => {
    close();
    onChange(range);
  };
  return (
    <div className={classes.menu}>
      <ul className={classes.quick} aria-label="Quick ranges">
        {QUICK_RANGES.map((quick, at) => (
          <li key={quick.label}>
            <button
              type="button"
              className={classes.choice}
              data-autofocus={at === 0 || undefined}
              aria-current={(quick.range.from === range.from && quick.range.to === range.to) || undefined}
              onClick={() => pick(quick.range)}
            >
              {quick.label}
            </button>
          </li>
        ))}
      </ul>
      <div className={classes.custom}>
        <RelativeForm range={range} onPick={pick} />
        <AbsoluteForm range={range} shown={shown} onPick={pick} />
        <Stack gap="xs">
          <Select
            size="xs"
            label="Auto-refresh"
            allowDeselect={false}
            comboboxProps={{ withinPortal: false }}
            value={String(refreshMs)}
            data={[...new Set([...REFRESHES_MS, refreshMs])].map((ms) => ({ value: String(ms), label: ms === 0 ? 'Off' : `Every ${format.duration(ms)}` }))}
            onChange={(ms) => onRefresh(Number(ms))}
          />
          <ZoneSelect />
        </Stack>
      </div>
    </div>
  );
}

function RelativeForm({ range, onPick }: { range: TimeRange; onPick: (range: TimeRange) => void }) {
  const known = range.to === 'now' ? parseRelative(range.from) : null;
  const [amount, setAmount] = useState<number | string>(known && known.amount < 0 ? -known.amount : 24);
  const [unit, setUnit] = useState<Unit>(known && known.amount < 0 ? known.unit : 'h');
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (typeof amount === 'number' && amount > 0) onPick({ from: relativeText({ amount: -amount, unit, round: null }), to: 'now' });
  };
  return (
    <form onSubmit={submit}>
      <fieldset className={classes.section}>
        <legend>Last</legend>
        <Group gap="xs" wrap="nowrap">
          <NumberInput size="xs" w={90} min={1} max={999_999} allowDecimal={false} aria-label="How many" value={amount} onChange={setAmount} />
          <Select
            size="xs"
            w={110}
            aria-label="Unit"
            allowDeselect={false}
            comboboxProps={{ withinPortal: false }}
            value={unit}
            data={UNITS.map((unit) => ({ value: unit, label: UNIT_LABELS[unit] }))}
            onChange={(unit) => setUnit(unit as Unit)}
          />
          <Button size="xs" type="submit" variant="default">
            Apply
          </Button>
        </Group>
      </fieldset>
    </form>
  );
}

function AbsoluteForm({ range, shown, onPick }: { range: TimeRange; shown: Props['shown']; onPick: (range: TimeRange) => void }) {
  const { zone } = useFormat();
  const [began] = useState(() => {
    const instant = (end: 'from' | 'to') => shown?.[end] ?? resolveBound(range[end], end, Date.now(), zone);
    return { from: instant('from'), to: instant('to') };
  });
  const [ends, setEnds] = useState<{ from: string; to: string }>({ from: began.from === null ? '' : wallText(began.from, zone), to: began.to === null ? '' : wallText(began.to, zone) });
  const from = parseWallTextNear(ends.from, began.from, zone);
  const to = parseWallTextNear(ends.to, began.to, zone);
  const reversed = from !== null && to !== null && from > to;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    // Inclusive to the end of the last second.
    if (from !== null && to !== null && !reversed) onPick(absoluteRange(from, to + 999));
  };
  const field = (end: 'from' | 'to', label: string) => (
    <DateTimePicker
      size="xs"
      withSeconds
      label={label}
      valueFormat="YYYY-MM-DD HH:mm:ss"
      popoverProps={{ withinPortal: false }}
      value={ends[end] || null}
      onChange={(value) => setEnds({ ...ends, [end]: value ?? '' })}
    />
  );
  return (
    <form onSubmit={submit}>
      <fieldset className={classes.section}>
        <legend>Custom range</legend>
        <Group gap="xs" grow>
          {field('from', 'From')}
          {field('to', 'To')}
        </Group>
        {reversed && (
          <Text size="xs" c="var(--mantine-color-error)" role="alert" mt={4}>
            {REVERSED}
          </Text>
        )}
        <Button size="xs" mt="xs" type="submit" variant="default" disabled={from === null || to === null || reversed}>
          Apply
        </Button>
      </fieldset>
    </form>
  );
}

function ZoneSelect() {
  const [zone, setZone] = useZonePreference();
  const zones = ['UTC', ...Intl.supportedValuesOf('timeZone').filter((name) => name !== 'UTC')];
  return (
    <Select
      size="xs"
      label="Time zone"
      searchable
      allowDeselect={false}
      comboboxProps={{ withinPortal: false }}
      limit={100}
      value={zone}
      data={[{ value: BROWSER_ZONE, label: `Browser (${resolveZone(BROWSER_ZONE)})` }, ...zones.map((name) => ({ value: name, label: name }))]}
      onChange={(zone) => zone && setZone(zone)}
    />
  );
}
