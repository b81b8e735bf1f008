import { ActionIcon, Button, Group, Loader, Text, Tooltip } from '@mantine/core';
import { IconCopy, IconFilterMinus, IconFilterPlus } from '@tabler/icons-react';
import { startTransition, useEffect, useState } from 'react';
import type { Question, TopValue, TopValues as Result } from '../../api/discover';
import type { Field } from '../../api/fields';
import { useFormat } from '../../app/preferences';
import { copyText } from '../../components/copy';
import { textOf } from '../../lib/event-fields';
import { isNumber } from '../../lib/json';
import { FieldIcon } from './FieldIcon';
import type { Condition } from './filters';
import { LOADING, type Stage, withStageEvent } from './run';
import { StageState } from './StageState';
import classes from './TopValues.module.css';
import { alone } from './use-run';

const VALUE_CHARS_MAX = 300;
const MORE = 100;

interface Props {
  field: Field;
  /** The field whose values are counted: the keyword sub-field of a text, else the field itself. */
  counted: Field;
  question: Question;
  isColumn: boolean;
  onFilter: (condition: Condition, not: boolean) => void;
  onColumn: (name: string) => void;
}

/** Top values of a field, counted over all matching events. */
export default function TopValues({ field, counted, question, isColumn, onFilter, onColumn }: Props) {
  const format = useFormat();
  const { name } = field;
  const { name: countedName, type, aggregatable } = counted;
  const [size, setSize] = useState(10);
  const [attempt, setAttempt] = useState<{ frozen: 'ask' | 'run'; number: number }>({ frozen: 'ask', number: 0 });
  const [stage, setStage] = useState<Stage<Result>>(LOADING);
  useEffect(() => {
    if (!aggregatable) return;
    const abort = new AbortController();
    setStage((stage) => ({ ...LOADING, result: stage.result }));
    const tell = (event: Parameters<typeof withStageEvent>[1]) => startTransition(() => setStage((stage) => withStageEvent(stage, event)));
    void alone(question, { stage: 'top_values', field: countedName, size }, abort.signal, tell, attempt.frozen);
    return () => abort.abort();
  }, [question, aggregatable, countedName, size, attempt]);
  const retry = (frozen: 'ask' | 'run') => setAttempt(({ number }) => ({ frozen, number: number + 1 }));
  const { result } = stage;
  const loading = stage.status === 'loading' || stage.status === 'partial';
  const listed = result ? result.values.reduce((sum, { count }) => sum + count, 0) : 0;
  return (
    <div className={classes.root}>
      <Group gap={7} px="sm" pt="xs" wrap="nowrap">
        <FieldIcon type={field.type} />
        <Text fw={650} size="sm" className={classes.title ?? ''}>
          {name}
        </Text>
        <Text size="xs" c="dimmed" ms="auto">
          {field.type}
        </Text>
      </Group>
      {!aggregatable && (
        <Text size="sm" px="sm" py={6}>
          {whyNotCounted(name, field.type)}
        </Text>
      )}
      {aggregatable && loading && !result && (
        <Group gap="xs" p="sm" role="status">
          <Loader size={14} />
          <Text size="xs" c="dimmed">
            Counting all matching events{stage.progress && `, ${format.number(stage.progress.done)} of ${format.number(stage.progress.total)} shards`}
          </Text>
        </Group>
      )}
      <StageState name="Top values" stage={stage} onRetry={() => retry('ask')} onGoOn={() => retry('run')} />
      {result && (
        <>
          <ul className={classes.list} aria-label={`Top values of ${name}`} aria-busy={loading}>
            {result.values.map((value) => (
              <Value key={`${typeof value.value} ${value.text}`} field={name} condition={conditionOf(countedName, type, value)} value={value} onFilter={onFilter} />
            ))}
            {result.values.length === 0 && <li className={classes.none}>No event has a value.</li>}
          </ul>
          <ul className={classes.list} aria-label="Other and missing values">
            {result.other > 0 && <Rest label="Other" count={result.other} of={result.with_value} />}
            {result.missing > 0 && <Rest label="Missing" count={result.missing} of={result.total} />}
          </ul>
          <Text size="xs" c="dimmed" px="sm">
            {loading ? 'So far ' : result.exact ? '' : 'About '}
            {format.number(result.with_value)} of {format.number(result.total)} events have a value. Percentages exclude missing values.
            {listed > result.with_value && ' Some events have several values.'}
            {countedName !== name && ` Counted in ${countedName}, which omits long texts.`}
          </Text>
        </>
      )}
      <Group gap={6} px="xs" pb="xs" pt={6}>
        <Button size="compact-xs" variant="default" onClick={() => onFilter({ op: 'exists', field: name }, false)}>
          Exists
        </Button>
        <Button size="compact-xs" variant="default" onClick={() => onFilter({ op: 'exists', field: name }, true)}>
          Does not exist
        </Button>
        <Button size="compact-xs" variant="default" onClick={() => onColumn(name)}>
          {isColumn ? 'Remove column' : 'Add as column'}
        </Button>
        {result && result.other > 0 && size < MORE && (
          <Button size="compact-xs" variant="subtle" onClick={() => setSize(MORE)}>
            Top {format.number(MORE)}
          </Button>
        )}
      </Group>
    </div>
  );
}

/** Explains why a field that is not aggregatable has no top values. */
export function whyNotCounted(name: string, type: string): string {
  return type === 'text' || type === 'match_only_text'
    ? `Full-text field; map a keyword field, such as ${name}.keyword, for top values`
    : `This ${type} field has no doc values, which top values need`;
}

/** Matches a date with ms: `date_nanos` values are counted by millisecond. */
const MS = /\.\d{3}(?=Z$)/;

/** Returns the filter condition for the events of a top value. */
export function conditionOf(field: string, type: string, { value, text }: TopValue): Condition {
  if (type === 'date_nanos' && MS.test(text)) return { op: 'range', field, gte: text, lte: text.replace(MS, '$&999999') };
  // By text if it differs from the number: dates come as numbers.
  return { op: 'is', field, value: isNumber(value) && String(value) !== text ? text : value };
}

function Value({ field, condition, value, onFilter }: { field: string; condition: Condition; value: TopValue; onFilter: Props['onFilter'] }) {
  const format = useFormat();
  const text = value.text === '' ? '(empty)' : textOf(value.text, VALUE_CHARS_MAX);
  const only = `Include ${field}: ${text}`;
  const without = `Exclude ${field}: ${text}`;
  return (
    <li className={classes.row}>
      <span className={classes.fill} style={{ width: `${value.percent}%` }} aria-hidden />
      <button type="button" className={classes.value} title={text} aria-label={`${text}: include this value of ${field}`} onClick={() => onFilter(condition, false)}>
        <bdi>{text}</bdi>
      </button>
      <span className={classes.percent}>{format.percent(value.percent)}</span>
      <span className={classes.number}>{format.number(value.count)}</span>
      <Tooltip label="Include">
        <ActionIcon variant="subtle" size={24} aria-label={only} onClick={() => onFilter(condition, false)}>
          <IconFilterPlus size={14} aria-hidden />
        </ActionIcon>
      </Tooltip>
      <Tooltip label="Exclude">
        <ActionIcon variant="subtle" color="red" size={24} aria-label={without} onClick={() => onFilter(condition, true)}>
          <IconFilterMinus size={14} aria-hidden />
        </ActionIcon>
      </Tooltip>
      <Tooltip label="Copy">
        <ActionIcon variant="subtle" color="gray" size={24} aria-label={`Copy ${text}`} onClick={() => void copyText(value.text, field)}>
          <IconCopy size={14} aria-hidden />
        </ActionIcon>
      </Tooltip>
    </li>
  );
}

function Rest({ label, count, of }: { label: string; count: number; of: number }) {
  const format = useFormat();
  return (
    <li className={classes.row} data-rest>
      <span className={classes.value}>{label}</span>
      <span className={classes.percent}>{format.percent(of > 0 ? (count * 100) / of : 0)}</span>
      <span className={classes.number}>{format.number(count)}</span>
    </li>
  );
}
