import { TagsInput } from '@mantine/core';

/** Input of index names and patterns, typed or pasted with any separators. */
export function IndexNames({ value, onChange }: { value: string[]; onChange: (names: string[]) => void }) {
  return (
    <TagsInput
      label="Indices and data streams"
      description="Names and patterns such as logs-*; press Enter after each. Leave empty for all."
      value={value}
      onChange={(typed) => onChange(typed.flatMap((text) => text.split(/[\s,]+/)).filter((name) => name !== ''))}
      splitChars={[',', ' ']}
    />
  );
}
