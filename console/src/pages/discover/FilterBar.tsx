import { Button } from '@mantine/core';
import { IconArrowsExchange, IconEye, IconEyeOff, IconFilterPlus, IconPencil, IconPin, IconPinFilled, IconPinnedOff, IconTrash, IconX } from '@tabler/icons-react';
import { lazy, memo, useState } from 'react';
import type { Field } from '../../api/fields';
import { Menu } from '../../components/Menu';
import { Part } from '../../components/Part';
import { textOf } from '../../lib/event-fields';
import { describeCondition, fieldOf, type Filter, toggled } from './filters';
import classes from './FilterBar.module.css';

const FilterDialog = lazy(() => import('./FilterDialog'));
/** Longer pills are truncated; their dialog shows the whole filter. */
const PILL_CHARS_MAX = 80;

interface Props {
  filters: Filter[];
  fields: Field[];
  onChange: (filters: Filter[]) => void;
}

/** Filters as pills: each can be edited, negated, disabled, pinned and removed. */
export const FilterBar = memo(function FilterBar({ filters, fields, onChange }: Props) {
  /** Index of the filter in the dialog; -1 for a new one. */
  const [editing, setEditing] = useState<number | null>(null);
  return (
    <>
      {filters.length > 0 && (
        <ul className={classes.list} aria-label="Filters">
          {filters.map((filter, at) => (
            <li key={at}>
              <Pill
                filter={filter}
                onToggle={(flag) => onChange(toggled(filters, at, flag))}
                onEdit={() => setEditing(at)}
                onRemove={() => onChange(filters.filter((_, index) => index !== at))}
              />
            </li>
          ))}
        </ul>
      )}
      <Button variant="subtle" size="compact-xs" leftSection={<IconFilterPlus size={14} aria-hidden />} onClick={() => setEditing(-1)}>
        Add filter
      </Button>
      {filters.length > 1 && (
        <Button variant="subtle" color="gray" size="compact-xs" onClick={() => onChange(filters.filter((filter) => filter.pin))}>
          Clear
        </Button>
      )}
      {editing !== null && (
        <Part lost="Failed to load the dialog" fallback={null}>
          <FilterDialog
            filter={filters[editing] ?? null}
            fields={fields}
            onSave={(filter) => onChange(editing < 0 ? [...filters, filter] : filters.map((known, at) => (at === editing ? filter : known)))}
            onClose={() => setEditing(null)}
          />
        </Part>
      )}
    </>
  );
});

interface PillProps {
  filter: Filter;
  onToggle: (flag: 'not' | 'off' | 'pin') => void;
  onEdit: () => void;
  onRemove: () => void;
}

function Pill({ filter, onToggle, onEdit, onRemove }: PillProps) {
  const field = fieldOf(filter);
  const words = textOf(describeCondition(filter), PILL_CHARS_MAX);
  const label = `${field ?? ''} ${words}`.trim();
  return (
    <span className={classes.pill} data-not={filter.not} data-off={filter.off}>
      <Menu position="bottom-start">
        <Menu.Target>
          <button type="button" className={classes.text} aria-label={`Filter: ${label}${filter.off ? ', disabled' : ''}${filter.pin ? ', pinned' : ''}`}>
            {filter.pin && <IconPinFilled size={11} aria-hidden />}
            {field !== null && <b>{field}</b>} <bdi>{words}</bdi>
          </button>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item leftSection={<IconPencil size={14} aria-hidden />} onClick={onEdit}>
            Edit
          </Menu.Item>
          <Menu.Item leftSection={<IconArrowsExchange size={14} aria-hidden />} onClick={() => onToggle('not')}>
            {filter.not ? 'Change to include' : 'Change to exclude'}
          </Menu.Item>
          <Menu.Item leftSection={filter.off ? <IconEye size={14} aria-hidden /> : <IconEyeOff size={14} aria-hidden />} onClick={() => onToggle('off')}>
            {filter.off ? 'Enable' : 'Disable'}
          </Menu.Item>
          <Menu.Item leftSection={filter.pin ? <IconPinnedOff size={14} aria-hidden /> : <IconPin size={14} aria-hidden />} onClick={() => onToggle('pin')}>
            {filter.pin ? 'Unpin' : 'Pin across searches'}
          </Menu.Item>
          <Menu.Divider />
          <Menu.Item color="red" leftSection={<IconTrash size={14} aria-hidden />} onClick={onRemove}>
            Remove
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <button type="button" className={classes.remove} aria-label={`Remove filter: ${label}`} onClick={onRemove}>
        <IconX size={12} aria-hidden />
      </button>
    </span>
  );
}
