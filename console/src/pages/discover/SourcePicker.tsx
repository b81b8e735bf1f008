import { Button, ScrollArea, Text, TextInput } from '@mantine/core';
import { IconChevronDown, IconDatabase } from '@tabler/icons-react';
import { memo, useState } from 'react';
import type { Sources } from '../../api/sources';
import { useFormat } from '../../app/preferences';
import { Failed } from '../../components/Failed';
import { Popover } from '../../components/Popover';
import classes from './SourcePicker.module.css';

const KINDS = { data_stream: 'data stream', alias: 'alias', index: 'index' };

interface Props {
  source: string;
  sources: Sources | null;
  /** Error of the request for the sources. */
  error: unknown;
  onRetry: () => void;
  onPick: (source: string) => void;
}

/** Picker of the source: a data stream, an alias, an index or a typed expression. */
export const SourcePicker = memo(function SourcePicker(props: Props) {
  const { source, onPick } = props;
  const [open, setOpen] = useState(false);
  return (
    <Popover opened={open} onChange={setOpen} position="bottom-start" width={360}>
      <Popover.Target>
        <Button
          variant="default"
          size="xs"
          h={32}
          maw={240}
          leftSection={<IconDatabase size={14} aria-hidden />}
          rightSection={<IconChevronDown size={13} aria-hidden />}
          aria-label={source ? `Source: ${source}` : 'Select a source'}
          aria-haspopup="dialog"
          onClick={() => setOpen(!open)}
        >
          <span className={classes.name}>{source || 'Source'}</span>
        </Button>
      </Popover.Target>
      <Popover.Dropdown p={0} aria-label="Sources">
        {open && (
          <Choices
            {...props}
            onPick={(name) => {
              setOpen(false);
              onPick(name);
            }}
          />
        )}
      </Popover.Dropdown>
    </Popover>
  );
});

function Choices({ source, sources, error, onRetry, onPick }: Props) {
  const format = useFormat();
  const [find, setFind] = useState('');
  const wanted = find.trim().toLowerCase();
  const all = sources?.sources ?? [];
  const shown = all.filter(({ name }) => name.toLowerCase().includes(wanted));
  const isKnown = all.some(({ name }) => name === find.trim());
  return (
    <>
      <TextInput
        m="xs"
        size="xs"
        data-autofocus
        aria-label="Find a source"
        placeholder="Find, or enter a pattern such as logs-*"
        value={find}
        onChange={(event) => setFind(event.currentTarget.value)}
        onKeyDown={(event) => {
          const first = find.includes('*') || shown.length === 0 ? find.trim() : shown[0]?.name;
          if (event.key === 'Enter' && first) onPick(first);
        }}
      />
      {error !== null && <Failed compact title="Failed to load the sources" error={error} retry={onRetry} />}
      <ScrollArea.Autosize mah={320}>
        <ul className={classes.list}>
          {wanted !== '' && !isKnown && (
            <li>
              <button type="button" className={classes.choice} onClick={() => onPick(find.trim())}>
                <span className={classes.name}>
                  Use “<bdi>{find.trim()}</bdi>”
                </span>
              </button>
            </li>
          )}
          {shown.map(({ name, kind, indices, tier }) => (
            <li key={name}>
              <button type="button" className={classes.choice} aria-current={name === source || undefined} onClick={() => onPick(name)}>
                <span className={classes.name}>{name}</span>
                <Text span size="xs" c="dimmed">
                  {KINDS[kind]}
                  {indices > 1 && ` · ${format.number(indices)} indices`}
                  {tier.length > 0 && ` · ${tier.join(', ')}`}
                </Text>
              </button>
            </li>
          ))}
        </ul>
      </ScrollArea.Autosize>
    </>
  );
}
