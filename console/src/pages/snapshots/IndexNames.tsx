import { TagsInput } from '@mantine/core';

/** Names and patterns of indices, in whatever way they were typed or pasted. */
export function IndexNames({ value, onChange }: { value: string[]; onChange: (names: string[]) => void }) {
  return (
    <TagsInput
      label="Indices and data streams"
      description="Names and patterns such as logs-*; Enter adds one. Empty: all."
      value={value}
      onChange={(typed) => onChange(typed.flatMap((text) => text.split(/[\s,]+/)).filter((name) => name !== ''))}
      splitChars={[',', ' ']}
    />
  );
}
