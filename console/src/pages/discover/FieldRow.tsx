import { ActionIcon, Tooltip } from '@mantine/core';
import { IconPlus, IconX } from '@tabler/icons-react';
import { createContext, lazy, memo, useContext } from 'react';
import type { FieldCount, Question } from '../../api/discover';
import type { Field } from '../../api/fields';
import { useFormat } from '../../app/preferences';
import { Part } from '../../components/Part';
import { Popover } from '../../components/Popover';
import { FieldIcon } from './FieldIcon';
import classes from './FieldList.module.css';
import type { Condition } from './filters';

const TopValues = lazy(() => import('./TopValues'));

/**
 * Counts by field name; `stale` if they belong to the previous request. A context, so that new counts render only the
 * numbers, not the rows.
 */
export const CountsContext = createContext<{ byName: Map<string, FieldCount>; stale: boolean }>({ byName: new Map(), stale: false });

interface Props {
  field: Field;
  /** The field whose values are counted for it. */
  counted: Field;
  /** Its top values are shown. */
  opened: boolean;
  isColumn: boolean;
  /** Request of the top values, if shown. */
  question: Question | null;
  onOpen: (name: string | null) => void;
  onFilter: (condition: Condition, not: boolean) => void;
  onColumn: (name: string) => void;
}

/** Row of the field list: opens the top values and toggles the column. */
export const FieldRow = memo(function FieldRow({ field, counted, opened, isColumn, question, onOpen, onFilter, onColumn }: Props) {
  const filter: Props['onFilter'] = (condition, not) => {
    // After including one value there is nothing more to see; more values may be excluded.
    if (!not) onOpen(null);
    onFilter(condition, not);
  };
  return (
    <>
      <Popover
        opened={opened}
        onChange={(open) => onOpen(open ? field.name : null)}
        position="right-start"
        middlewares={{ flip: true, shift: { crossAxis: true } }}
        width={380}
        withinPortal
      >
        <Popover.Target>
          <button
            type="button"
            className={classes.field}
            aria-haspopup="dialog"
            onClick={() => onOpen(opened ? null : field.name)}
          >
            <FieldIcon type={field.type} />
            <Name name={field.name} />
            <Count name={counted.name} isKeyword={counted !== field} />
          </button>
        </Popover.Target>
        <Popover.Dropdown p={0} aria-label={`Values of ${field.name}`}>
          {opened && question && (
            <Part lost="Failed to load the top values">
              <TopValues field={field} counted={counted} question={question} onFilter={filter} isColumn={isColumn} onColumn={onColumn} />
            </Part>
          )}
        </Popover.Dropdown>
      </Popover>
      <Tooltip label={isColumn ? 'Remove column' : 'Add as column'} position="right">
        <ActionIcon
          className={classes.add ?? ''}
          variant="subtle"
          size={24}
          aria-label={isColumn ? `Remove column ${field.name}` : `Add column ${field.name}`}
          onClick={() => onColumn(field.name)}
        >
          {isColumn ? <IconX size={13} aria-hidden /> : <IconPlus size={13} aria-hidden />}
        </ActionIcon>
      </Tooltip>
    </>
  );
});

/** Field name whose path is truncated first: long names differ in their last part. */
function Name({ name }: { name: string }) {
  const dot = name.lastIndexOf('.');
  return (
    <span className={classes.name} title={name}>
      {dot > 0 && <span className={classes.path}>{name.slice(0, dot + 1)}</span>}
      <span className={classes.leaf}>{name.slice(dot + 1)}</span>
    </span>
  );
}

/** `isKeyword`: the count belongs to the keyword sub-field of a text, which lacks texts that are too long. */
function Count({ name, isKeyword }: { name: string; isKeyword: boolean }) {
  const format = useFormat();
  const { byName, stale } = useContext(CountsContext);
  const count = byName.get(name);
  if (!count || count.cardinality === null || (isKeyword && count.documents === 0)) return null;
  const text = `${count.exact ? '' : '~'}${format.compact(count.cardinality)}`;
  const values = `${count.exact ? '' : 'about '}${format.number(count.cardinality)} values`;
  const title = count.documents === null ? values : `${values} in ${format.number(count.documents)} events`;
  return (
    <span className={classes.count} title={title} aria-label={title} role="img" data-count data-stale={stale || undefined}>
      {text}
    </span>
  );
}
