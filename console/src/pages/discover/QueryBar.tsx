import { ActionIcon, Button, Text, Tooltip } from '@mantine/core';
import { IconCheck, IconPlayerStopFilled, IconRefresh } from '@tabler/icons-react';
import { lazy, memo, Suspense, useEffect, useId, useRef, useState } from 'react';
import type { Language, Question } from '../../api/discover';
import { ApiError, errorText } from '../../api/errors';
import { ErrorBoundary } from '../../app/ErrorBoundary';
import { Menu } from '../../components/Menu';
import { queryErrorText } from './failures';
import classes from './QueryBar.module.css';

const QueryEditor = lazy(() => import('./QueryEditor'));

export const LANGUAGE_NAMES: Record<Language, string> = { kql: 'KQL', lucene: 'Lucene', dsl: 'DSL' };

const HINTS: Record<Language, string> = {
  kql: 'Search, for example  severity: critical and site: lagos*   (press / to search)',
  lucene: 'Search, for example  severity:critical AND site:lagos*',
  dsl: 'Query DSL as JSON, for example  {"term": {"severity": "critical"}}',
};

interface Props {
  text: string;
  language: Language;
  /** Error of the query, if it failed. */
  error: unknown;
  running: boolean;
  /** Request for completion; text and language come from the editor. */
  question: Question | null;
  onRun: (text: string, language: Language) => void;
  onCancel: () => void;
}

/** Query bar. Enter runs the query; a syntax error is marked in the text, and the rest of the page stays. */
export const QueryBar = memo(function QueryBar({ text, language, error, running, question, onRun, onCancel }: Props) {
  const [draft, setDraft] = useState({ text, language });
  const [dirty, setDirty] = useState(false);
  const messageId = useId();
  const focused = useRef(false);
  useEffect(() => {
    setDraft((draft) => (draft.text === text && draft.language === language ? draft : { text, language }));
    setDirty(false);
  }, [text, language]);
  const change = (patch: Partial<typeof draft>) => {
    setDraft({ ...draft, ...patch });
    setDirty(true);
  };
  const run = (text = draft.text) => {
    setDirty(false);
    onRun(text, draft.language);
  };
  // The error belongs to the text that was sent, not to the text that is being edited.
  const shownError = dirty ? null : error;
  const position = shownError instanceof ApiError ? shownError.position : undefined;
  const label = `Query in ${LANGUAGE_NAMES[draft.language]}`;
  // Plain input until the editor has loaded: typing works without syntax highlighting.
  const plain = (
    <input
      className={classes.plain}
      aria-label={label}
      data-query
      placeholder={HINTS[draft.language]}
      value={draft.text}
      onFocus={() => (focused.current = true)}
      onBlur={() => (focused.current = false)}
      onChange={(event) => change({ text: event.currentTarget.value })}
      onKeyDown={(event) => event.key === 'Enter' && run()}
    />
  );
  return (
    <div className={classes.root}>
      <div className={classes.box} data-error={shownError ? true : undefined}>
        <ErrorBoundary instead={plain}>
          <Suspense fallback={plain}>
            <QueryEditor
              label={label}
              placeholder={HINTS[draft.language]}
              text={draft.text}
              language={draft.language}
              position={position ?? null}
              messageId={shownError ? messageId : null}
              question={question}
              takesFocus={focused.current}
              onChange={(text) => change({ text })}
              onRun={run}
            />
          </Suspense>
        </ErrorBoundary>
        <Menu position="bottom-end" withinPortal>
          <Menu.Target>
            <Button variant="subtle" color="gray" size="compact-xs" className={classes.language ?? ''} aria-label={`Query language: ${LANGUAGE_NAMES[draft.language]}`}>
              {LANGUAGE_NAMES[draft.language]}
            </Button>
          </Menu.Target>
          <Menu.Dropdown>
            <Menu.Label>Query language</Menu.Label>
            {(Object.keys(LANGUAGE_NAMES) as Language[]).map((name) => (
              <Menu.Item
                key={name}
                leftSection={<IconCheck size={14} aria-hidden visibility={name === draft.language ? 'visible' : 'hidden'} />}
                onClick={() => change({ language: name })}
              >
                {LANGUAGE_NAMES[name]}
              </Menu.Item>
            ))}
          </Menu.Dropdown>
        </Menu>
        {running ? (
          <Tooltip label="Cancel">
            <ActionIcon variant="light" color="gray" size={26} aria-label="Cancel" onClick={onCancel}>
              <IconPlayerStopFilled size={14} aria-hidden />
            </ActionIcon>
          </Tooltip>
        ) : (
          <Tooltip label={dirty ? 'Search (Enter)' : 'Refresh (Enter)'}>
            <ActionIcon variant={dirty ? 'filled' : 'light'} size={26} aria-label="Search" onClick={() => run()}>
              <IconRefresh size={15} aria-hidden />
            </ActionIcon>
          </Tooltip>
        )}
      </div>
      {shownError !== null && shownError !== undefined && (
        <Text id={messageId} role="alert" size="xs" c="var(--mantine-color-error)" className={classes.message ?? ''} dir="auto">
          {queryErrorText(errorText(shownError))}
        </Text>
      )}
    </div>
  );
});
