import { ActionIcon, Button, Group, Tabs, Text, Tooltip } from '@mantine/core';
import { IconColumns3, IconCopy, IconExternalLink, IconEyeCheck, IconFilterMinus, IconFilterPlus, IconLink, IconListDetails } from '@tabler/icons-react';
import { memo, useMemo, useState } from 'react';
import { Link, useHref } from 'react-router';
import type { Hit } from '../../api/discover';
import type { Field } from '../../api/fields';
import { useFormat } from '../../app/preferences';
import { copyText } from '../../components/copy';
import { flatten, textOf } from '../../lib/event-fields';
import classes from './EventDetail.module.css';
import { eventAddress } from './event-address';
import { type EventActions, MarkedText, markedValue, scalarOf } from './EventRow';
import { FieldIcon } from './FieldIcon';
import type { ColumnState } from './state';
import { ValueMenu } from './ValueMenu';

/** Characters of a value shown at first: a megabyte in a table is no help. */
const VALUE_CHARS_MAX = 4000;
const JSON_CHARS_MAX = 200_000;

interface Props {
  hit: Hit;
  columns: ColumnState[];
  fields: Map<string, Field>;
  /** Null on the page of a single event, which has nothing to filter. */
  actions: EventActions | null;
}

/** Complete event: its fields as a table, or as JSON. */
export default memo(function EventDetail({ hit, columns, fields, actions }: Props) {
  const address = eventAddress(hit);
  const href = useHref(address);
  const [copied, setCopied] = useState(false);
  const copyLink = () => void copyText(new URL(href, window.location.href).href, 'Link').then(setCopied);
  return (
    <div className={classes.root}>
      <Tabs defaultValue="table" variant="default" keepMounted={false}>
        <Group justify="space-between" gap="xs" wrap="nowrap">
          <Tabs.List className={classes.tabs ?? ''}>
            <Tabs.Tab value="table">Table</Tabs.Tab>
            <Tabs.Tab value="json">JSON</Tabs.Tab>
          </Tabs.List>
          <Group gap={6}>
            {actions && (
              <Button size="compact-xs" variant="subtle" leftSection={<IconListDetails size={14} aria-hidden />} onClick={() => actions.onSurrounding(hit)}>
                Surrounding events
              </Button>
            )}
            <Button size="compact-xs" variant="subtle" leftSection={<IconLink size={14} aria-hidden />} onClick={copyLink}>
              {copied ? 'Link copied' : 'Copy link'}
            </Button>
            {actions && (
              <Button component={Link} to={address} target="_blank" size="compact-xs" variant="subtle" leftSection={<IconExternalLink size={14} aria-hidden />}>
                Open in new tab
              </Button>
            )}
          </Group>
        </Group>
        <Tabs.Panel value="table">
          <FieldTable hit={hit} columns={columns} fields={fields} actions={actions} />
        </Tabs.Panel>
        <Tabs.Panel value="json">
          <Json hit={hit} />
        </Tabs.Panel>
      </Tabs>
    </div>
  );
});

function FieldTable({ hit, columns, fields, actions }: Props) {
  const rows = useMemo(() => {
    const meta = [
      { name: '_index', value: hit._index },
      { name: '_id', value: hit._id },
      ...(hit._routing ? [{ name: '_routing', value: hit._routing }] : []),
    ];
    return [...flatten(hit._source ?? {}), ...meta];
  }, [hit]);
  return (
    <table className={classes.table}>
      <tbody>
        {rows.map(({ name, value }) => (
          <tr key={name}>
            <th scope="row">
              <span className={classes.name}>
                <FieldIcon type={fields.get(name)?.type ?? (name === '_id' ? '_id' : 'keyword')} />
                {name}
              </span>
            </th>
            <td>
              <Value hit={hit} name={name} value={value} type={fields.get(name)?.type} actions={actions} />
            </td>
            {actions && (
              <td className={classes.actions}>
                <ValueActions name={name} value={value} isColumn={columns.some((column) => column.name === name)} actions={actions} />
              </td>
            )}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

interface ValueProps {
  hit: Hit;
  name: string;
  value: unknown;
  type: string | undefined;
  actions: EventActions | null;
}

function Value({ hit, name, value, type, actions }: ValueProps) {
  const format = useFormat();
  const [whole, setWhole] = useState(false);
  const shown = markedValue(hit, name, value, type, format, whole ? Number.POSITIVE_INFINITY : VALUE_CHARS_MAX);
  const cut = !whole && shown.text.length > VALUE_CHARS_MAX;
  const text = <MarkedText shown={shown} />;
  return (
    <>
      {actions ? (
        <ValueMenu name={name} value={value} actions={actions} className={classes.value}>
          {text}
        </ValueMenu>
      ) : (
        <span dir="auto" className={classes.value}>
          {text}
        </span>
      )}
      {cut && (
        <Button size="compact-xs" variant="subtle" onClick={() => setWhole(true)}>
          Show all {format.number(textOf(value).length)} characters
        </Button>
      )}
    </>
  );
}

function ValueActions({ name, value, isColumn, actions }: { name: string; value: unknown; isColumn: boolean; actions: EventActions }) {
  const scalar = scalarOf(value);
  const { onFilter, onColumn, onCopy } = actions;
  return (
    <Group gap={0} wrap="nowrap" justify="flex-end">
      {scalar !== null && (
        <>
          <Action label={`Include this value of ${name}`} tip="Include" onClick={() => onFilter({ op: 'is', field: name, value: scalar }, false)}>
            <IconFilterPlus size={14} aria-hidden />
          </Action>
          <Action label={`Exclude this value of ${name}`} tip="Exclude" onClick={() => onFilter({ op: 'is', field: name, value: scalar }, true)}>
            <IconFilterMinus size={14} aria-hidden />
          </Action>
        </>
      )}
      <Action label={`Include events that have ${name}`} tip="Field exists" onClick={() => onFilter({ op: 'exists', field: name }, false)}>
        <IconEyeCheck size={14} aria-hidden />
      </Action>
      <Action label={isColumn ? `Remove column ${name}` : `Add column ${name}`} tip={isColumn ? 'Remove column' : 'Add as column'} onClick={() => onColumn(name)}>
        <IconColumns3 size={14} aria-hidden />
      </Action>
      <Action label={`Copy ${name}`} tip="Copy" onClick={() => onCopy(textOf(value), name)}>
        <IconCopy size={14} aria-hidden />
      </Action>
    </Group>
  );
}

function Action({ label, tip, onClick, children }: { label: string; tip: string; onClick: () => void; children: React.ReactNode }) {
  return (
    <Tooltip label={tip}>
      <ActionIcon variant="subtle" color="gray" size={24} aria-label={label} onClick={onClick}>
        {children}
      </ActionIcon>
    </Tooltip>
  );
}

function Json({ hit }: { hit: Hit }) {
  const format = useFormat();
  const [whole, setWhole] = useState(false);
  const [copied, setCopied] = useState(false);
  const text = useMemo(() => {
    const { _index, _id, _routing, _source } = hit;
    return JSON.stringify({ _index, _id, ...(_routing && { _routing }), _source }, null, 2);
  }, [hit]);
  const cut = !whole && text.length > JSON_CHARS_MAX;
  return (
    <div className={classes.jsonBox}>
      <Group gap={6} className={classes.jsonTools ?? ''}>
        <Button size="compact-xs" variant="default" leftSection={<IconCopy size={13} aria-hidden />} onClick={() => void copyText(text, 'Event').then(setCopied)}>
          {copied ? 'Copied' : 'Copy JSON'}
        </Button>
      </Group>
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- it scrolls, also by keys. */}
      <pre className={classes.json} tabIndex={0} role="region" aria-label="Event as JSON">
        {cut ? text.slice(0, JSON_CHARS_MAX) : text}
      </pre>
      {cut && (
        <Text size="xs" c="dimmed">
          Truncated.{' '}
          <Button size="compact-xs" variant="subtle" onClick={() => setWhole(true)}>
            Show all {format.number(text.length)} characters
          </Button>
        </Text>
      )}
    </div>
  );
}
