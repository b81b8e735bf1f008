import { Button, Code } from '@mantine/core';
import { IconCheck, IconCopy } from '@tabler/icons-react';
import { useState } from 'react';
import { copyText } from './copy';
import classes from './CopyBlock.module.css';

/** Code block with a copy button. */
export function CopyBlock({ text, label }: { text: string; label: string }) {
  const [copied, setCopied] = useState<string | null>(null);
  return (
    <div className={classes.block}>
      {/* Focusable, so that keyboard users can scroll a block that is wider than the page. */}
      <Code block className={classes.code ?? ''} tabIndex={0} aria-label={label}>
        {text}
      </Code>
      <Button
        className={classes.copy ?? ''}
        size="compact-xs"
        variant="default"
        onClick={() => void copyText(text, label).then((copied) => setCopied(copied ? text : null))}
        aria-label={copied === text ? `${label}: copied` : `Copy ${label}`}
        leftSection={copied === text ? <IconCheck size={13} aria-hidden /> : <IconCopy size={13} aria-hidden />}
      >
        {copied === text ? 'Copied' : 'Copy'}
      </Button>
    </div>
  );
}
