import { useFormat } from '../../app/preferences';
import { DAYS } from './rows';

const WIDTH = 56;
const HEIGHT = 20;
/** Height of a day with few alerts beside one with many, so that it is seen. */
const LEAST = 2;

/** Bar for each of the last days, today last. Empty if there are no alerts. */
export function DayBars({ label, days }: { label: string; days: number[] }) {
  const format = useFormat();
  const most = Math.max(...days, 0);
  if (most === 0) return null;
  const step = WIDTH / DAYS;
  const text = days.map((count) => format.number(count)).join(', ');
  return (
    <svg width={WIDTH} height={HEIGHT} role="img" aria-label={`${label}, today last: ${text}`} style={{ display: 'block' }}>
      <title>{`Last ${DAYS} days, today last: ${text}`}</title>
      {days.map((count, at) => {
        const height = count === 0 ? 0 : Math.max(LEAST, (count / most) * HEIGHT);
        return <rect key={at} x={(DAYS - days.length + at) * step} y={HEIGHT - height} width={step - 2} height={height} fill="var(--mantine-color-blue-filled)" />;
      })}
    </svg>
  );
}
