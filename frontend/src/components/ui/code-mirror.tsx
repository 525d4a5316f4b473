/**
 * CodeMirror inside a shadow root: there it uses constructed style sheets, which the page's
 * security policy allows; in the document it would add <style> elements, which it forbids.
 */
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import { python } from "@codemirror/lang-python";
import { bracketMatching, foldGutter, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState, type Extension } from "@codemirror/state";
import { EditorView, keymap, lineNumbers, highlightActiveLine } from "@codemirror/view";
import { setDiagnostics } from "@codemirror/lint";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "react";
import type { CodeEditorProps } from "./code-editor";
import classes from "./code-editor.module.css";

const look = EditorView.theme({
  "&": { height: "100%", color: "var(--ink)", backgroundColor: "transparent" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", fontSize: "13px", lineHeight: "1.55" },
  ".cm-gutters": { background: "var(--sunken)", color: "var(--ink-faint)", border: "none" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--sunken) 60%, transparent)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--grain-soft) !important",
  },
});

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.bool, tags.null], color: "var(--assigned-ink)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--done-ink)" },
  { tag: [tags.number], color: "var(--lost-ink)" },
  { tag: [tags.propertyName, tags.definition(tags.variableName)], color: "var(--running-ink)" },
  { tag: [tags.comment], color: "var(--ink-faint)", fontStyle: "italic" },
]);

function languageOf(language: CodeEditorProps["language"]): Extension {
  if (language === "json") return json();
  return language === "python" ? python() : [];
}

export default function CodeMirror({ label, language, value, onChange, error }: CodeEditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const tell = useRef(onChange);
  useEffect(() => {
    tell.current = onChange;
  }, [onChange]);

  const readOnly = onChange === undefined;
  useEffect(() => {
    const element = host.current;
    if (element === null) return;
    const root = element.shadowRoot ?? element.attachShadow({ mode: "open" });
    const editor = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        extensions: [
          lineNumbers(),
          foldGutter(),
          history(),
          bracketMatching(),
          highlightActiveLine(),
          highlightSelectionMatches(),
          keymap.of([...defaultKeymap, ...historyKeymap, ...searchKeymap, indentWithTab]),
          syntaxHighlighting(colours),
          look,
          languageOf(language),
          EditorView.lineWrapping,
          EditorState.readOnly.of(readOnly),
          EditorView.contentAttributes.of({ "aria-label": label }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) tell.current?.(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = editor;
    return () => {
      editor.destroy();
      view.current = null;
    };
  }, [label, language, readOnly]);

  useEffect(() => {
    const editor = view.current;
    if (editor === null || editor.state.doc.toString() === value) return;
    editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: value } });
  }, [value, label, language, readOnly]);

  useEffect(() => {
    const editor = view.current;
    if (editor === null) return;
    if (error == null) {
      editor.dispatch(setDiagnostics(editor.state, []));
      return;
    }
    const line = editor.state.doc.line(Math.min(Math.max(1, error.line), editor.state.doc.lines));
    editor.dispatch(
      setDiagnostics(editor.state, [
        { from: line.from, to: line.to, severity: "error", message: error.message },
      ]),
    );
  }, [error]);

  return <div ref={host} className={classes.host} />;
}
