/** A text editor, loaded when first shown; a plain text box stands in until then. */
import { lazy, Suspense } from "react";
import classes from "./code-editor.module.css";

const Editor = lazy(() => import("./code-mirror"));

export interface CodeEditorProps {
  label: string;
  language: "json" | "python" | "text";
  value: string;
  onChange?: (text: string) => void;
  /** a line (from 1) to point out */
  error?: { line: number; message: string } | null;
  height?: string;
}

export function CodeEditor(props: CodeEditorProps) {
  return (
    <div className={classes.frame} style={{ height: props.height ?? "360px" }}>
      <Suspense fallback={<pre className={classes.waiting}>{props.value}</pre>}>
        <Editor {...props} />
      </Suspense>
    </div>
  );
}
