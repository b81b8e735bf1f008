import { Group, Select, Textarea } from '@mantine/core';
import { LANGUAGES, type QueryInput, type QueryLanguage, queryProblem } from './query-form';

interface Props {
  label: string;
  query: QueryInput;
  required?: boolean;
  /** Example of a text; one for rules by default. */
  placeholder?: string;
  onChange: (query: QueryInput) => void;
}

const PLACEHOLDERS: Record<QueryLanguage, string> = { kuery: 'user.name: root and not event.outcome: failure', lucene: 'user.name:root AND NOT event.outcome:failure', dsl: '{"term": {"user.name": "root"}}' };

/** Query with its language. */
export function QueryFields({ label, query, required = true, placeholder, onChange }: Props) {
  return (
    <Group align="flex-start" gap="sm">
      <Textarea
        style={{ flex: '1 1 260px' }}
        label={label}
        required={required}
        autosize
        minRows={2}
        maxRows={20}
        placeholder={query.language === 'dsl' ? PLACEHOLDERS.dsl : (placeholder ?? PLACEHOLDERS[query.language])}
        value={query.text}
        error={queryProblem(query)}
        onChange={(event) => onChange({ ...query, text: event.currentTarget.value })}
        styles={{ input: { fontFamily: 'monospace' } }}
      />
      <Select
        w={130}
        label="Language"
        aria-label={`Language of ${label.toLowerCase()}`}
        allowDeselect={false}
        data={LANGUAGES}
        value={query.language}
        onChange={(language) => onChange({ ...query, language: language as QueryLanguage })}
      />
    </Group>
  );
}
