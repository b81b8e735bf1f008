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

/** What a cell shows of a long value: the rest is read when the row is open. */
const CELL_CHARS_MAX = 400;
const SUMMARY_FIELDS_MAX = 40;
const SUMMARY_CHARS_MAX = 160;

/** What can be done with an event and its values. The same functions for all rows: rows are not drawn anew for them. */
export interface EventActions {
  onFilter: (condition: Condition, not: boolean) => void;
  onColumn: (name: string) => void;
  onSurrounding: (hit: Hit) => void;
  onCopy: (text: string, what: string) => void;
}

interface Props {
  hit: Hit;
  at: number;
  /** Of the element, for `aria-activedescendant`. */
  id: string;
  rowKey: string;
  columns: ColumnState[];
  timeField: string | null;
  fields: Map<string, Field>;
  first: string[];
  open: boolean;
  active: boolean;
  /** It has just come. */
  fresh: boolean;
  actions: EventActions;
  onToggle: (key: string) => void;
}

/** One event: a line of columns or a summary, and below it, when it is open, all of it. */
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
            <Part lost="The event is not there">
              <EventDetail hit={hit} columns={columns} fields={fields} actions={actions} />
            </Part>
          </div>
        </div>
      )}
    </>
  );
});

/** What an event has at a path: as the server tells it of columns, else from its source. */
function valueOf(hit: Hit, name: string): unknown {
  const values = hit.fields?.[name];
  if (values) return values.length === 1 ? values[0] : values;
  return valueAt(hit._source ?? {}, name);
}

/** A value as text; dates in the reader's zone. Numbers stay as they are: a port is not 8,080. */
export function shownValue(value: unknown, type: string | undefined, format: Format, charsMax = CELL_CHARS_MAX): string {
  if (type === 'date' || type === 'date_nanos') {
    const ms = dateMs(value);
    if (ms !== null) return format.time(ms);
  }
  return textOf(value, charsMax);
}

/** The same with what the query found in it. */
export function markedValue(hit: Hit, name: string, value: unknown, type: string | undefined, format: Format, charsMax = CELL_CHARS_MAX): Marked {
  const fragments = fragmentsOf(hit.highlight, name);
  if (fragments.length > 0) {
    const text = textOf(value);
    // A date is not shown as it was found.
    const marks = shownValue(value, type, format, Number.POSITIVE_INFINITY) === text ? marksOf(value, fragments) : [];
    if (marks.length > 0) return cutMarked({ text, marks }, charsMax);
  }
  return { text: shownValue(value, type, format, charsMax), marks: [] };
}

/** What a filter on a value asks for: of several the first. */
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
              <ActionIcon variant="subtle" size={24} aria-label={`Only events where ${name} is this`} title="Only these" onClick={() => actions.onFilter({ op: 'is', field: name, value: scalar }, false)}>
                <IconFilterPlus size={13} aria-hidden />
              </ActionIcon>
              <ActionIcon variant="subtle" color="red" size={24} aria-label={`Without events where ${name} is this`} title="Without these" onClick={() => actions.onFilter({ op: 'is', field: name, value: scalar }, true)}>
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

/** Text with elements around what the query found: whatever else is in it stays text. */
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
  // Two lines show little: what was found comes first, then what most readers begin with.
  const shown = known
    .map((field) => ({ ...field, rank: rank(field) }))
    .sort((one, other) => one.rank - other.rank)
    .slice(0, SUMMARY_FIELDS_MAX);
  return (
    <dl className={classes.summary}>
      {shown.map(({ name, value }) => (
        <Fragment key={name}>
          {/* Without spaces between them a line would end in the middle of a value and stay empty from there. */}
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
