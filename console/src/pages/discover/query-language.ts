import type { StreamParser, TagStyle } from '@codemirror/language';
import { EditorView } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import type { Language } from '../../api/discover';

interface Nothing {
  key: boolean;
}

/** Tokenizer of words, strings, fields and conjunctions: enough for syntax highlighting. */
function words(conjunctions: RegExp): StreamParser<Nothing> {
  return {
    startState: () => ({ key: false }),
    token(stream) {
      if (stream.eatSpace()) return null;
      if (stream.match(/^"(?:[^"\\]|\\.)*"?/)) return 'string';
      if (stream.match(/^[():{}[\]<>=*]+/)) return 'operator';
      if (stream.match(conjunctions)) return 'keyword';
      if (stream.match(/^(?:[^\s"():{}<>=\\]|\\.)+(?=\s*(?::|<|>))/)) return 'propertyName';
      if (stream.match(/^(?:[^\s"():{}[\]<>=\\*]|\\.)+/)) return 'string';
      stream.next();
      return null;
    },
  };
}

const json: StreamParser<Nothing> = {
  startState: () => ({ key: false }),
  token(stream) {
    if (stream.eatSpace()) return null;
    if (stream.match(/^"(?:[^"\\]|\\.)*"(?=\s*:)/)) return 'propertyName';
    if (stream.match(/^"(?:[^"\\]|\\.)*"?/)) return 'string';
    if (stream.match(/^(?:true|false|null)\b/)) return 'keyword';
    if (stream.match(/^-?\d[\d.eE+-]*/)) return 'string';
    stream.next();
    return null;
  },
};

export const LANGUAGES: Record<Language, StreamParser<Nothing>> = {
  kql: words(/^(?:and|or|not)(?=[\s()]|$)/i),
  lucene: words(/^(?:AND|OR|NOT|TO|&&|\|\|)(?=[\s()]|$)/),
  dsl: json,
};

export const HIGHLIGHTS: TagStyle[] = [
  { tag: tags.propertyName, color: 'light-dark(#0b5f86, #74bcd9)' },
  { tag: tags.keyword, color: 'light-dark(#7f3490, #d9a0de)', fontWeight: '600' },
  { tag: tags.operator, color: 'var(--mantine-color-dimmed)' },
];

export const THEME = EditorView.theme({
  '&': { fontSize: '13px', background: 'transparent' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mantine-font-family-monospace)', lineHeight: '20px', maxHeight: '160px', overflow: 'auto' },
  '.cm-content': { padding: '5px 0', caretColor: 'var(--mantine-color-text)' },
  '.cm-line': { padding: '0 10px' },
  '.cm-cursor': { borderLeftColor: 'var(--mantine-color-text)' },
  '.cm-placeholder': { color: 'var(--mantine-color-placeholder)' },
  '.cm-lintRange-error': { backgroundImage: 'none', textDecoration: 'underline wavy var(--mantine-color-error)', textUnderlineOffset: '3px', background: 'color-mix(in srgb, var(--mantine-color-error) 18%, transparent)' },
  '.cm-tooltip': { background: 'var(--firn-surface)', border: '1px solid var(--firn-line)', borderRadius: '4px', boxShadow: '0 4px 14px rgb(0 0 0 / 18%)', color: 'var(--mantine-color-text)', overflow: 'hidden' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul': { fontFamily: 'var(--mantine-font-family-monospace)', fontSize: '12.5px', maxHeight: '320px' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li': { padding: '4px 10px', display: 'flex', gap: '16px', alignItems: 'baseline' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]': { background: 'var(--mantine-primary-color-filled)', color: '#fff' },
  '.cm-completionDetail': { marginInlineStart: 'auto', fontStyle: 'normal', fontFamily: 'var(--mantine-font-family)', fontSize: '11.5px', opacity: '0.85' },
  '.cm-completionMatchedText': { textDecoration: 'none', fontWeight: '600' },
  '.cm-tooltip-lint': { padding: '2px 4px' },
  '.cm-diagnostic-error': { borderLeft: '3px solid var(--mantine-color-error)' },
});
