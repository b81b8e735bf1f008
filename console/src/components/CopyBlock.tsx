import { Button, Code, CopyButton } from '@mantine/core';
import { IconCheck, IconCopy } from '@tabler/icons-react';
import classes from './CopyBlock.module.css';

/** Text to take elsewhere, with a button that copies it. */
export function CopyBlock({ text, label }: { text: string; label: string }) {
  return (
    <div className={classes.block}>
      {/* It may be wider than the page, and whoever has no mouse scrolls it by keys: it takes the focus. */}
      <Code block className={classes.code ?? ''} tabIndex={0} aria-label={label}>
        {text}
      </Code>
      <CopyButton value={text}>
        {({ copied, copy }) => (
          <Button
            className={classes.copy ?? ''}
            size="compact-xs"
            variant="default"
            onClick={copy}
            aria-label={copied ? `${label}: copied` : `Copy ${label}`}
            leftSection={copied ? <IconCheck size={13} aria-hidden /> : <IconCopy size={13} aria-hidden />}
          >
            {copied ? 'Copied' : 'Copy'}
          </Button>
        )}
      </CopyButton>
    </div>
  );
}
