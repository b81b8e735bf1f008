import { acceptCompletion, autocompletion, closeCompletion, type CompletionContext, type CompletionResult, completionStatus, currentCompletions, moveCompletionSelection, selectedCompletion } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { bracketMatching, HighlightStyle, StreamLanguage, syntaxHighlighting } from '@codemirror/language';
import { setDiagnostics } from '@codemirror/lint';
import { Compartment, EditorState, Prec } from '@codemirror/state';
import { EditorView, keymap, placeholder as placeholderOf } from '@codemirror/view';
import { useEffect, useRef } from 'react';
import type { Language, Question } from '../../api/discover';
import { isAbort, type Position } from '../../api/errors';
import { suggest } from '../../api/suggest';
import { styleNonce } from '../../app/nonce';
import classes from './QueryBar.module.css';
import { HIGHLIGHTS, LANGUAGES, THEME } from './query-language';

interface Props {
  label: string;
  placeholder: string;
  text: string;
  language: Language;
  position: Position | null;
  /** Id of the element with the error message. */
  messageId: string | null;
  question: Question | null;
  takesFocus: boolean;
  onChange: (text: string) => void;
  onRun: (text: string) => void;
}

/** CodeMirror editor of the query bar: highlighting, completion from the server, error position. */
export default function QueryEditor(props: Props) {
  const { label, placeholder, text, language, position, messageId } = props;
  const target = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const parts = useRef({ language: new Compartment(), attributes: new Compartment(), placeholder: new Compartment() });

  useEffect(() => {
    if (!target.current) return;
    const { language, attributes, placeholder } = parts.current;
    const editor = new EditorView({
      parent: target.current,
      state: EditorState.create({
        doc: latest.current.text,
        extensions: [
          EditorView.cspNonce.of(styleNonce()),
          history(),
          bracketMatching(),
          EditorView.lineWrapping,
          EditorView.domEventHandlers({ beforeinput: typedOver }),
          THEME,
          syntaxHighlighting(HighlightStyle.define(HIGHLIGHTS)),
          language.of([]),
          attributes.of([]),
          placeholder.of([]),
          autocompletion({ override: [complete], selectOnOpen: false, icons: false, activateOnTypingDelay: 60, interactionDelay: 0 }),
          Prec.highest(keymap.of([{ key: 'Enter', run: runOrAccept }, { key: 'Tab', run: acceptFirst }, { key: 'Ctrl-Enter', run }, { key: 'Escape', run: leave }])),
          keymap.of([...defaultKeymap, ...historyKeymap]),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) latest.current.onChange(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = editor;
    if (latest.current.takesFocus) {
      editor.focus();
      editor.dispatch({ selection: { anchor: editor.state.doc.length } });
    }
    return () => editor.destroy();

    /** Runs the query. Closes the completion list, also one that is still loading. */
    function run(): boolean {
      closeCompletion(editor);
      latest.current.onRun(editor.state.doc.toString());
      return true;
    }
    /** Enter accepts the selected completion; if none is selected, it runs the query. */
    function runOrAccept(): boolean {
      return (completionStatus(editor.state) === 'active' && selectedCompletion(editor.state) !== null && acceptCompletion(editor)) || run();
    }
    async function complete(context: CompletionContext): Promise<CompletionResult | null> {
      const { question, language } = latest.current;
      if (!question || language === 'dsl') return null;
      const abort = new AbortController();
      context.addEventListener('abort', () => abort.abort());
      try {
        const text = context.state.doc.toString();
        const { replace, items } = await suggest({ ...question, query: { language, text } }, context.pos, abort.signal);
        if (items.length === 0) return null;
        return {
          from: Math.min(replace.from, context.pos),
          to: Math.max(replace.to, context.pos),
          filter: false,
          options: items.map((item) => ({
            label: item.label,
            apply: item.text,
            type: item.kind,
            ...(item.detail !== null && item.detail !== undefined && { detail: String(item.detail) }),
          })),
        };
      } catch (error) {
        // Typing continues without completion; a server failure shows where its results are missing.
        if (!isAbort(error)) console.debug('no suggestions', error);
        return null;
      }
    }
  }, []);

  useEffect(() => {
    const editor = view.current;
    if (!editor || editor.state.doc.toString() === text) return;
    editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: text } });
  }, [text]);

  useEffect(() => {
    view.current?.dispatch({ effects: parts.current.language.reconfigure(StreamLanguage.define(LANGUAGES[language])) });
  }, [language]);

  useEffect(() => {
    view.current?.dispatch({ effects: parts.current.placeholder.reconfigure(placeholderOf(placeholder)) });
  }, [placeholder]);

  useEffect(() => {
    const attributes: Record<string, string> = { 'aria-label': label, 'data-query': '', spellcheck: 'false', enterkeyhint: 'search' };
    if (messageId) Object.assign(attributes, { 'aria-invalid': 'true', 'aria-describedby': messageId });
    view.current?.dispatch({ effects: parts.current.attributes.reconfigure(EditorView.contentAttributes.of(attributes)) });
  }, [label, messageId]);

  useEffect(() => {
    const editor = view.current;
    if (!editor) return;
    const { length } = editor.state.doc;
    const from = Math.min(position?.start ?? 0, Math.max(0, length - 1));
    const to = Math.min(length, Math.max(position?.end ?? 0, from + 1));
    const marks = position && length > 0 ? [{ from, to, severity: 'error' as const, message: 'Syntax error here' }] : [];
    editor.dispatch(setDiagnostics(editor.state, marks));
  }, [position]);

  return <div ref={target} className={classes.editor} />;
}

/**
 * Inserts text that is typed over a selection. Chromium would copy the style of the replaced text as an inline style, which
 * the page's Content-Security-Policy refuses.
 */
function typedOver(event: InputEvent, editor: EditorView): boolean {
  if (event.inputType !== 'insertText' || event.data === null || event.isComposing || editor.state.selection.main.empty) return false;
  editor.dispatch(editor.state.replaceSelection(event.data), { userEvent: 'input.type', scrollIntoView: true });
  return true;
}

/** Tab accepts the selected or first completion; without a list it moves the focus as usual. */
function acceptFirst(editor: EditorView): boolean {
  if (completionStatus(editor.state) === null || currentCompletions(editor.state).length === 0) return false;
  if (selectedCompletion(editor.state) === null) moveCompletionSelection(true)(editor);
  acceptCompletion(editor);
  // While the list reloads, Tab accepts nothing, but the focus stays.
  return true;
}

/** Escape leaves the query bar, unless a list is open. */
function leave(editor: EditorView): boolean {
  if (completionStatus(editor.state) !== null) return false;
  editor.contentDOM.blur();
  return true;
}
