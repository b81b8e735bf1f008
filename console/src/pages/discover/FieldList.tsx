import { Text, TextInput } from '@mantine/core';
import { IconSearch } from '@tabler/icons-react';
import { useVirtualizer } from '@tanstack/react-virtual';
import { memo, useDeferredValue, useMemo, useRef, useState } from 'react';
import type { Cardinality, Question } from '../../api/discover';
import type { Field } from '../../api/fields';
import { useFormat } from '../../app/preferences';
import { Failed } from '../../components/Failed';
import { Loading } from '../../components/Loading';
import classes from './FieldList.module.css';
import { CountsContext, FieldRow } from './FieldRow';
import type { Condition } from './filters';
import { shownField, shownFields, valueField } from './multi-fields';
import type { Stage } from './run';
import { LeftOut, StageState } from './StageState';
import { useCounts } from './use-counts';

const ROW_PX = 26;

interface Props {
  fields: Field[];
  /** Error of the request for the fields. */
  error: unknown;
  counts: Stage<Cardinality>;
  columns: string[];
  /** Key fields, which come first in summaries. */
  first: string[];
  /** Request that the counts belong to. */
  question: Question | null;
  onFilter: (condition: Condition, not: boolean) => void;
  onColumn: (name: string) => void;
  onRetry: () => void;
  onGoOn: () => void;
  onBackground: () => void;
}

/** Words in field names and their abbreviations: typing one finds the others. */
const SHORTENED = [
  ['source', 'src'],
  ['destination', 'dest', 'dst'],
  ['address', 'addr', 'ip'],
  ['message', 'msg'],
  ['number', 'num'],
];

/** `counted`: the field whose values are counted for it. */
type Row = { heading: string; count: number } | { field: Field; counted: Field; unused: boolean };

/** Field list with the number of distinct values in all matching events. A click on a field shows its top values. */
export const FieldList = memo(function FieldList(props: Props) {
  const { fields, error, counts, columns, first, question, onFilter, onColumn } = props;
  const format = useFormat();
  const [find, setFind] = useState('');
  const [opened, setOpened] = useState<string | null>(null);
  const wanted = useDeferredValue(find.trim().toLowerCase());
  const found = fields.length > 0 ? null : counts.result;
  const known = useMemo(() => listed(found ? fieldsOf(found) : fields), [fields, found]);
  const shownColumns = useMemo(() => columns.map((name) => shownField(name, known.byName)), [columns, known]);
  const rows = useMemo(() => rowsOf(known, shownColumns, first, counts.result, wanted), [known, shownColumns, first, counts.result, wanted]);
  const scroll = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({ count: rows.length, getScrollElement: () => scroll.current, estimateSize: () => ROW_PX, overscan: 10 });
  const items = virtual.getVirtualItems();
  const inSight = items.flatMap(({ index }) => {
    const row = rows[index];
    return row && 'field' in row && !row.unused && row.counted.aggregatable ? row.counted.name : [];
  });
  const { byName, incomplete } = useCounts(counts, question, inSight);
  const shown = useMemo(() => ({ byName, stale: counts.stale }), [byName, counts.stale]);
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
        data-autofocus
      />
      {error !== null && error !== undefined && known.shown.length === 0 && <Failed compact title="Fields: request failed" error={error} />}
      <StageState name="Field counts" stage={counts} onRetry={props.onRetry} onGoOn={props.onGoOn} onBackground={props.onBackground} />
      {!counts.incomplete && <LeftOut name="Further field counts" incomplete={incomplete} />}
      {known.shown.length === 0 && loading && <Loading label="Fields" />}
      <div ref={scroll} className={classes.scroll}>
        <CountsContext value={shown}>
          <ul className={classes.list} style={{ height: virtual.getTotalSize() }} aria-label="Fields" aria-busy={loading}>
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
              const { field, counted, unused } = row;
              const isOpened = opened === field.name;
              // A field that is counted once it is visible keeps its position. A text may be too long for its keyword,
              // so a keyword without values does not make it empty.
              const isEmpty = unused || (counted === field && byName.get(field.name)?.documents === 0);
              return (
                <li key={field.name} className={classes.row} style={style} data-unused={isEmpty || undefined}>
                  <FieldRow
                    field={field}
                    counted={counted}
                    opened={isOpened}
                    isColumn={shownColumns.includes(field.name)}
                    question={isOpened ? question : null}
                    onOpen={setOpened}
                    onFilter={onFilter}
                    onColumn={onColumn}
                  />
                </li>
              );
            })}
          </ul>
        </CountsContext>
        {known.shown.length > 0 && rows.length === 0 && (
          <Text size="xs" c="dimmed" p="sm">
            No matching fields
          </Text>
        )}
      </div>
    </section>
  );
});

/** Fields derived from the counts, until the field list has loaded. */
function fieldsOf(counts: Cardinality): Field[] {
  return counts.fields.map(({ name, type, error }) => ({ name, type: type ?? 'unknown', searchable: true, aggregatable: !error, in_use: true }));
}

interface Listed {
  /** Sorted by name. */
  shown: Field[];
  /** All fields. */
  byName: Map<string, Field>;
}

function listed(fields: Field[]): Listed {
  const byName = new Map(fields.map((field) => [field.name, field]));
  const inOrder = [...fields].sort((one, other) => one.name.localeCompare(other.name));
  return { shown: shownFields(inOrder, byName), byName };
}

/** Returns whether a field name matches the search text, which is in lower case. */
export function isFound(name: string, wanted: string): boolean {
  const group = SHORTENED.find((words) => words.includes(wanted)) ?? [wanted];
  return group.some((word) => name.toLowerCase().includes(word));
}

/** Groups the sorted fields. The counted fields are the most used ones: they come first, and stay there. */
function rowsOf({ shown, byName }: Listed, columns: string[], first: string[], result: Cardinality | null, wanted: string): Row[] {
  const counts = new Map(result?.fields.map(({ name, documents }) => [name, documents]));
  const countedName = (field: Field) => valueField(field.name, byName);
  const found = shown.filter((field) => isFound(countedName(field), wanted));
  const named = (names: string[]) => names.flatMap((name) => found.find((field) => field.name === name) ?? []);
  const main = named(first.filter((name) => !columns.includes(name))).filter((field) => field.in_use);
  const rest = found.filter((field) => !columns.includes(field.name) && !main.includes(field));
  // A field without values in the matching events counts as unused.
  const isUsed = (field: Field) => field.in_use && counts.get(countedName(field)) !== 0;
  const isCounted = (field: Field) => counts.size === 0 || counts.has(countedName(field));
  const groups: [heading: string, fields: Field[], unused?: boolean][] = [
    ['Columns', named(columns)],
    ['Key fields', main],
    ['Fields', rest.filter((field) => isUsed(field) && isCounted(field))],
    ['Other fields', rest.filter((field) => isUsed(field) && !isCounted(field))],
    ['Empty fields', rest.filter((field) => !isUsed(field)), true],
  ];
  const valueOf = (field: Field) => (countedName(field) === field.name ? field : (byName.get(countedName(field)) ?? field));
  const rows = (group: Field[], unused?: boolean) => group.map((field) => ({ field, counted: valueOf(field), unused: unused ?? !field.in_use }));
  return groups.flatMap(([heading, group, unused]): Row[] => (group.length === 0 ? [] : [{ heading, count: group.length }, ...rows(group, unused)]));
}
