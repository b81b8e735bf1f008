import { ActionIcon, Popover, Text, TextInput, Tooltip } from '@mantine/core';
import { IconPlus, IconSearch, IconX } from '@tabler/icons-react';
import { useVirtualizer } from '@tanstack/react-virtual';
import { lazy, memo, Suspense, useDeferredValue, useMemo, useRef, useState } from 'react';
import type { Cardinality, FieldCount, Question } from '../../api/discover';
import type { Field } from '../../api/fields';
import { useFormat } from '../../app/preferences';
import { Failed } from '../../components/Failed';
import { Loading } from '../../components/Loading';
import { FieldIcon } from './FieldIcon';
import classes from './FieldList.module.css';
import type { Condition } from './filters';
import type { Stage } from './run';
import { LeftOut, StageState } from './StageState';
import { useCounts } from './use-counts';

const TopValues = lazy(() => import('./TopValues'));

const ROW_PX = 26;

interface Props {
  fields: Field[];
  /** The fields could not be asked for. */
  error: unknown;
  counts: Stage<Cardinality>;
  columns: string[];
  /** What the counts are about. */
  question: Question | null;
  onFilter: (condition: Condition, not: boolean) => void;
  onColumn: (name: string) => void;
  onRetry: () => void;
  onGoOn: () => void;
  onBackground: () => void;
}

type Row = { heading: string; count: number } | { field: Field };

/** The fields, with how many values each has in all events that match. One that is clicked shows its top values. */
export const FieldList = memo(function FieldList(props: Props) {
  const { fields, error, counts, columns, question, onFilter, onColumn } = props;
  const format = useFormat();
  const [find, setFind] = useState('');
  const [opened, setOpened] = useState<string | null>(null);
  const wanted = useDeferredValue(find.trim().toLowerCase());
  const known = useMemo(() => (fields.length > 0 ? fields : fieldsOf(counts.result)), [fields, counts.result]);
  const rows = useMemo(() => rowsOf(known, columns, counts.result, wanted), [known, columns, counts.result, wanted]);
  const scroll = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({ count: rows.length, getScrollElement: () => scroll.current, estimateSize: () => ROW_PX, overscan: 10 });
  const items = virtual.getVirtualItems();
  const inSight = items.flatMap(({ index }) => {
    const row = rows[index];
    return row && 'field' in row && row.field.in_use && row.field.aggregatable ? row.field.name : [];
  });
  const { byName, incomplete } = useCounts(counts, question, inSight);
  const loading = counts.status === 'loading' || counts.status === 'partial';
  return (
    <section className={classes.root} aria-label="Fields" aria-busy={loading}>
      <TextInput
        size="xs"
        m={8}
        mb={4}
        aria-label="Find a field"
        placeholder="Find a field"
        leftSection={<IconSearch size={13} aria-hidden />}
        value={find}
        onChange={(event) => setFind(event.currentTarget.value)}
        onKeyDown={(event) => event.key === 'Escape' && setFind('')}
        data-fields
      />
      {error !== null && error !== undefined && known.length === 0 && <Failed compact title="Fields: no answer" error={error} />}
      <StageState name="Counts" stage={counts} onRetry={props.onRetry} onGoOn={props.onGoOn} onBackground={props.onBackground} />
      {!counts.incomplete && <LeftOut name="Counting further fields" incomplete={incomplete} />}
      {known.length === 0 && loading && <Loading label="Fields" />}
      <div ref={scroll} className={classes.scroll}>
        <ul className={classes.list} style={{ height: virtual.getTotalSize() }} aria-label="Fields">
          {items.map((item) => {
            const row = rows[item.index];
            if (!row) return null;
            const style = { transform: `translateY(${item.start}px)` };
            if ('heading' in row) {
              return (
                <li key={`heading ${row.heading}`} className={classes.heading} style={style}>
                  {row.heading} <span className={classes.count}>{format.number(row.count)}</span>
                </li>
              );
            }
            const { field } = row;
            const isColumn = columns.includes(field.name);
            return (
              <li key={field.name} className={classes.row} style={style} data-unused={!field.in_use || undefined}>
                <Popover
                  opened={opened === field.name}
                  onChange={(open) => setOpened(open ? field.name : null)}
                  position="right-start"
                  width={380}
                  trapFocus
                  returnFocus
                  withinPortal
                >
                  <Popover.Target>
                    <button
                      type="button"
                      className={classes.field}
                      aria-haspopup="dialog"
                      onClick={() => setOpened(opened === field.name ? null : field.name)}
                    >
                      <FieldIcon type={field.type} />
                      <Name name={field.name} />
                      <Count count={byName.get(field.name)} />
                    </button>
                  </Popover.Target>
                  <Popover.Dropdown p={0} aria-label={`Values of ${field.name}`}>
                    {opened === field.name && question && (
                      <Suspense fallback={<Loading />}>
                        <TopValues field={field} question={question} onFilter={onFilter} isColumn={isColumn} onColumn={onColumn} />
                      </Suspense>
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
              </li>
            );
          })}
        </ul>
        {known.length > 0 && rows.length === 0 && (
          <Text size="xs" c="dimmed" p="sm">
            No field is called like that.
          </Text>
        )}
      </div>
    </section>
  );
});

/** Long names are told apart by their ends. */
function Name({ name }: { name: string }) {
  const dot = name.lastIndexOf('.');
  return (
    <span className={classes.name} title={name}>
      {dot > 0 && <span className={classes.path}>{name.slice(0, dot + 1)}</span>}
      <span className={classes.leaf}>{name.slice(dot + 1)}</span>
    </span>
  );
}

function Count({ count }: { count: FieldCount | undefined }) {
  const format = useFormat();
  if (!count || count.cardinality === null) return null;
  const text = `${count.exact ? '' : '~'}${format.compact(count.cardinality)}`;
  const values = `${count.exact ? '' : 'about '}${format.number(count.cardinality)} values`;
  const title = count.documents === null ? values : `${values} in ${format.number(count.documents)} events`;
  return (
    <span className={classes.count} title={title} aria-label={title} role="img">
      {text}
    </span>
  );
}

/** As long as only the counts are known. */
function fieldsOf(counts: Cardinality | null): Field[] {
  return (counts?.fields ?? []).map(({ name, type, error }) => ({ name, type: type ?? 'unknown', searchable: true, aggregatable: !error, in_use: true }));
}

/** Fields in groups. Those that were counted are the most used ones: they come first, and do not move any more. */
function rowsOf(fields: Field[], columns: string[], result: Cardinality | null, wanted: string): Row[] {
  const counts = new Map(result?.fields.map(({ name, documents }) => [name, documents]));
  const found = fields.filter((field) => field.name.toLowerCase().includes(wanted)).sort((one, other) => one.name.localeCompare(other.name));
  const selected = columns.flatMap((name) => found.find((field) => field.name === name) ?? []);
  const rest = found.filter((field) => !columns.includes(field.name));
  // A field that has no value in what matches is as good as not there.
  const isUsed = (field: Field) => field.in_use && counts.get(field.name) !== 0;
  const isCounted = (field: Field) => counts.size === 0 || counts.has(field.name);
  const groups: [string, Field[]][] = [
    ['Columns', selected],
    ['Fields', rest.filter((field) => isUsed(field) && isCounted(field))],
    ['Rarer fields', rest.filter((field) => isUsed(field) && !isCounted(field))],
    ['Without values here', rest.filter((field) => !isUsed(field)).map((field) => ({ ...field, in_use: false }))],
  ];
  return groups.flatMap(([heading, group]): Row[] => (group.length === 0 ? [] : [{ heading, count: group.length }, ...group.map((field) => ({ field }))]));
}
