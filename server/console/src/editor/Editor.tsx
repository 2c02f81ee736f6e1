/** The editor of statements: CodeMirror with completion and with the place of an error marked. Loaded on demand. */
import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  closeCompletion,
  completionKeymap,
  completionStatus,
} from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { sql } from '@codemirror/lang-sql';
import { bracketMatching, syntaxHighlighting } from '@codemirror/language';
import { Compartment, EditorState, Prec, StateEffect, StateField } from '@codemirror/state';
import {
  Decoration,
  drawSelection,
  EditorView,
  highlightActiveLine,
  keymap,
  lineNumbers,
  type DecorationSet,
} from '@codemirror/view';
import type { JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { dialect, functionCompletions } from './dialect';
import { columnCompletions, type Schema } from './schema';
import { highlighting, theme } from './theme';

interface Props {
  /** The text that replaces that of the editor. What the user types is newer, so only a new object counts. */
  given: { text: string };
  schema: Schema;
  /** The offset of an error, or `null`. */
  error: number | null;
  onChange: (text: string) => void;
  onSelect: (selection: { from: number; to: number }) => void;
  onRun: (all: boolean) => void;
  onSave: () => void;
}

const markError = StateEffect.define<number | null>();

function decorate(state: EditorState, at: number): DecorationSet {
  const rest = state.doc.sliceString(at, Math.min(state.doc.length, at + 200));
  const length = /^(\w+|.)/.exec(rest)?.[0].length ?? 0;
  const line = state.doc.lineAt(Math.min(at, state.doc.length));
  const whole = Decoration.line({ class: 'cm-error-line' }).range(line.from);
  // At the end of the text the last character is marked.
  const from = length > 0 ? at : Math.max(line.from, at - 1);
  const to = length > 0 ? at + length : at;
  if (to <= from) return Decoration.set([whole]);
  return Decoration.set([whole, Decoration.mark({ class: 'cm-error' }).range(from, to)]);
}

const errorField = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(marks, transaction) {
    if (transaction.docChanged) return Decoration.none;
    for (const effect of transaction.effects) {
      if (effect.is(markError))
        return effect.value === null ? Decoration.none : decorate(transaction.state, effect.value);
    }
    return marks;
  },
  provide: (field) => EditorView.decorations.from(field),
});

function language(schema: Schema) {
  const support = sql({ dialect, upperCaseKeywords: true, schema: schema.tables });
  return [
    support,
    dialect.language.data.of({ autocomplete: functionCompletions }),
    dialect.language.data.of({ autocomplete: columnCompletions(schema) }),
  ];
}

export function Editor(props: Props): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const compartment = useRef(new Compartment());

  useEffect(() => {
    if (!place.current) return;
    const run = (all: boolean) => (editor: EditorView) => {
      closeCompletion(editor);
      latest.current.onRun(all);
      return true;
    };
    const root = place.current.shadowRoot ?? place.current.attachShadow({ mode: 'open' });
    const made = new EditorView({
      parent: root,
      root,
      state: EditorState.create({
        doc: latest.current.given.text,
        extensions: [
          Prec.highest(
            keymap.of([
              { key: 'Mod-Enter', run: run(false) },
              { key: 'Mod-Shift-Enter', run: run(true) },
              {
                key: 'Mod-s',
                preventDefault: true,
                run: () => {
                  latest.current.onSave();
                  return true;
                },
              },
            ]),
          ),
          lineNumbers(),
          history(),
          drawSelection(),
          bracketMatching(),
          closeBrackets(),
          autocompletion({ icons: false }),
          highlightActiveLine(),
          theme,
          syntaxHighlighting(highlighting),
          keymap.of([...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, ...defaultKeymap]),
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ 'aria-label': 'Statement', 'aria-multiline': 'true' }),
          errorField,
          compartment.current.of(language(latest.current.schema)),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) latest.current.onChange(update.state.doc.toString());
            if (update.selectionSet || update.docChanged)
              latest.current.onSelect(update.state.selection.main);
            // Completions that arrive after the focus has left would stay until it comes back.
            if (!update.view.hasFocus && completionStatus(update.state) === 'active')
              setTimeout(() => closeCompletion(made));
          }),
        ],
      }),
    });
    view.current = made;
    made.focus();
    return () => made.destroy();
  }, []);

  useEffect(() => {
    const current = view.current;
    if (!current || current.state.doc.toString() === props.given.text) return;
    current.dispatch({ changes: { from: 0, to: current.state.doc.length, insert: props.given.text } });
  }, [props.given]);

  useEffect(() => {
    view.current?.dispatch({ effects: compartment.current.reconfigure(language(props.schema)) });
  }, [props.schema]);

  useEffect(() => {
    view.current?.dispatch({ effects: markError.of(props.error) });
  }, [props.error]);

  return <div class="editor" ref={place} />;
}
