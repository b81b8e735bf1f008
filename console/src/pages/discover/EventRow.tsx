import { ActionIcon } from '@mantine/core';
import { IconChevronDown, IconChevronRight, IconCopy, IconFilterMinus, IconFilterPlus } from '@tabler/icons-react';
import { Fragment, lazy, memo, useState } from 'react';
import type { Hit } from '../../api/discover';
import type { Field } from '../../api/fields';
import { useFormat } from '../../app/preferences';
import type { Format } from '../../lib/format';
import { dateMs, flatten, textOf, valueAt } from '../../lib/event-fields';
import { isNumber, isScalar, type Scalar } from '../../lib/json';
import { cutMarked, fragmentsOf, type Marked, marksOf, piecesOf } from '../../lib/marks';
import { Part } from '../../components/Part';
import classes from './EventTable.module.css';
import type { Condition } from './filters';
import type { ColumnState } from './state';

const EventDetail = lazy(() => import('./EventDetail'));

/** Characters that a cell shows of a long value. The expanded row shows the rest. */
const CELL_CHARS_MAX = 400;
const SUMMARY_FIELDS_MAX = 40;
const SUMMARY_CHARS_MAX = 160;

/** Actions on an event and its values. All rows share the same functions, so that memoized rows do not render again. */
export interface EventActions {
  onFilter: (condition: Condition, not: boolean) => void;
  onColumn: (name: string) => void;
  onSurrounding: (hit: Hit) => void;
  onCopy: (text: string, what: string) => void;
}

interface Props {
  hit: Hit;
  at: number;
  /** Element id for `aria-activedescendant`. */
  id: string;
  rowKey: string;
  columns: ColumnState[];
  timeField: string | null;
  fields: Map<string, Field>;
  first: string[];
  open: boolean;
  active: boolean;
  /** The event has just arrived. */
  fresh: boolean;
  actions: EventActions;
  onToggle: (key: string) => void;
}

/** Row of one event: columns or a summary, and the complete event below if expanded. */
export const EventRow = memo(function EventRow({ hit, at, id, rowKey, columns, timeField, fields, first, open, active, fresh, actions, onToggle }: Props) {
  const format = useFormat();
  const tall = columns.length === 0;
  const count = 2 + (timeField === null ? 0 : 1) + Math.max(0, columns.length - 1);
  return (
    <>
      <div
        role="row"
        id={id}
        aria-rowindex={at + 2}
        aria-expanded={open}
        aria-level={1}
        className={tall ? `${classes.row} ${classes.tall}` : classes.row}
        data-active={active || undefined}
        data-fresh={fresh || undefined}
      >
        <div role="gridcell">
          <button type="button" tabIndex={-1} className={classes.expand} aria-label={open ? 'Close this event' : 'Open this event'} aria-expanded={open} onClick={() => onToggle(rowKey)}>
            {open ? <IconChevronDown size={15} aria-hidden /> : <IconChevronRight size={15} aria-hidden />}
          </button>
        </div>
        {timeField !== null && (
          <div role="gridcell" className={`${classes.cell} ${classes.time}`}>
            {shownValue(valueOf(hit, timeField), 'date', format)}
          </div>
        )}
        {tall ? (
          <div role="gridcell">
            <Summary hit={hit} timeField={timeField} first={first} fields={fields} />
          </div>
        ) : (
          columns.map(({ name }) => <Cell key={name} hit={hit} name={name} type={fields.get(name)?.type} actions={actions} />)
        )}
      </div>
      {open && (
        <div role="row" aria-level={2}>
          <div role="gridcell" aria-colspan={count}>
            <Part lost="Failed to load the event">
              <EventDetail hit={hit} columns={columns} fields={fields} actions={actions} />
            </Part>
          </div>
        </div>
      )}
    </>
  );
});

/** Returns the value of a field: from `fields` of the hit, which holds columns, else from `_source`. */
function valueOf(hit: Hit, name: string): unknown {
  const values = hit.fields?.[name];
  if (values) return values.length === 1 ? values[0] : values;
  return valueAt(hit._source ?? {}, name);
}

/** Formats a value; dates in the user's zone. Numbers get no separators: a port is not 8,080. */
export function shownValue(value: unknown, type: string | undefined, format: Format, charsMax = CELL_CHARS_MAX): string {
  if (type === 'date' || type === 'date_nanos') {
    const ms = dateMs(value);
    if (ms !== null) return format.time(ms);
  }
  return textOf(value, charsMax);
}

/** Like `shownValue`, with the matches of the query marked. */
export function markedValue(hit: Hit, name: string, value: unknown, type: string | undefined, format: Format, charsMax = CELL_CHARS_MAX): Marked {
  const fragments = fragmentsOf(hit.highlight, name);
  if (fragments.length > 0) {
    const text = textOf(value);
    // A formatted date differs from the matched text.
    const marks = shownValue(value, type, format, Number.POSITIVE_INFINITY) === text ? marksOf(value, fragments) : [];
    if (marks.length > 0) return cutMarked({ text, marks }, charsMax);
  }
  return { text: shownValue(value, type, format, charsMax), marks: [] };
}

/** Returns the value to filter by: the first one of several. */
export function scalarOf(value: unknown): Scalar | null {
  const one: unknown = Array.isArray(value) ? value[0] : value;
  return isScalar(one) ? one : null;
}

function Cell({ hit, name, type, actions }: { hit: Hit; name: string; type: string | undefined; actions: EventActions }) {
  const format = useFormat();
  const [over, setOver] = useState(false);
  const value = valueOf(hit, name);
  if (value === undefined) {
    return (
      <div role="gridcell" className={`${classes.cell} ${classes.none}`}>
        –
      </div>
    );
  }
  const shown = markedValue(hit, name, value, type, format);
  const scalar = scalarOf(value);
  return (
    <div role="gridcell" className={isNumber(value) ? `${classes.cell} ${classes.numeric}` : classes.cell} title={shown.text} onPointerEnter={() => setOver(true)} onPointerLeave={() => setOver(false)}>
      <bdi>
        <MarkedText shown={shown} />
      </bdi>
      {over && (
        <span className={classes.actions}>
          {scalar !== null && (
            <>
              <ActionIcon variant="subtle" size={24} aria-label={`Include this value of ${name}`} title="Include" onClick={() => actions.onFilter({ op: 'is', field: name, value: scalar }, false)}>
                <IconFilterPlus size={13} aria-hidden />
              </ActionIcon>
              <ActionIcon variant="subtle" color="red" size={24} aria-label={`Exclude this value of ${name}`} title="Exclude" onClick={() => actions.onFilter({ op: 'is', field: name, value: scalar }, true)}>
                <IconFilterMinus size={13} aria-hidden />
              </ActionIcon>
            </>
          )}
          <ActionIcon variant="subtle" color="gray" size={24} aria-label={`Copy ${name}`} title="Copy" onClick={() => actions.onCopy(textOf(value), name)}>
            <IconCopy size={13} aria-hidden />
          </ActionIcon>
        </span>
      )}
    </div>
  );
}

/** Text with `mark` elements around the matches; markup in the text itself stays text. */
export function MarkedText({ shown }: { shown: Marked }) {
  if (shown.marks.length === 0) return shown.text;
  return piecesOf(shown).map((piece, at) => (at % 2 === 1 ? <mark key={at}>{piece}</mark> : <Fragment key={at}>{piece}</Fragment>));
}

function Summary({ hit, timeField, first, fields }: { hit: Hit; timeField: string | null; first: string[]; fields: Map<string, Field> }) {
  const format = useFormat();
  const known = flatten(hit._source ?? {}).filter(({ name }) => name !== timeField);
  const rank = ({ name }: { name: string }) => {
    const at = first.indexOf(name);
    if (fragmentsOf(hit.highlight, name).length > 0) return -1;
    return at < 0 ? first.length : at;
  };
  // Two lines show little: matches come first, then the key fields.
  const shown = known
    .map((field) => ({ ...field, rank: rank(field) }))
    .sort((one, other) => one.rank - other.rank)
    .slice(0, SUMMARY_FIELDS_MAX);
  return (
    <dl className={classes.summary}>
      {shown.map(({ name, value }) => (
        <Fragment key={name}>
          {/* Without these spaces, lines would break inside values. */}
          <dt>{name}</dt>{' '}
          <dd>
            <bdi>
              <MarkedText shown={markedValue(hit, name, value, fields.get(name)?.type, format, SUMMARY_CHARS_MAX)} />
            </bdi>
          </dd>{' '}
        </Fragment>
      ))}
    </dl>
  );
}
