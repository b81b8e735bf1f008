import {
  IconBinary,
  IconCalendar,
  IconCircleHalf2,
  IconHash,
  IconKey,
  IconLetterT,
  IconMapPin,
  IconNetwork,
  IconQuestionMark,
  IconTag,
  type Icon,
} from '@tabler/icons-react';
import classes from './Discover.module.css';

const NUMBERS = ['long', 'integer', 'short', 'byte', 'unsigned_long', 'double', 'float', 'half_float', 'scaled_float'];

const ICONS: Record<string, Icon> = {
  keyword: IconTag,
  constant_keyword: IconTag,
  wildcard: IconTag,
  text: IconLetterT,
  match_only_text: IconLetterT,
  date: IconCalendar,
  date_nanos: IconCalendar,
  boolean: IconCircleHalf2,
  ip: IconNetwork,
  geo_point: IconMapPin,
  geo_shape: IconMapPin,
  binary: IconBinary,
  _id: IconKey,
  ...Object.fromEntries(NUMBERS.map((type) => [type, IconHash])),
};

/** Icon of a field type, with the type as its label. */
export function FieldIcon({ type }: { type: string | null | undefined }) {
  const Picture = ICONS[type ?? ''] ?? IconQuestionMark;
  return <Picture size={13} stroke={1.8} className={classes.fieldIcon} data-type={type ?? 'unknown'} aria-label={type ?? 'unknown type'} role="img" />;
}
