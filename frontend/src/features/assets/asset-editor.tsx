/** Declaration, source or files, and documentation side by side; the same for new and for old. */
import { Select, Textarea } from "@mantine/core";
import { useState } from "react";
import { CodeEditor } from "@/components/ui/code-editor";
import type { AssetKind } from "@/lib/api/types";
import { KINDS } from "./kinds";
import { readJson } from "./read-json";
import classes from "./assets.module.css";

export interface AssetText {
  declaration: string;
  source: string;
  files: Record<string, string>;
  documentation: string;
}

interface AssetEditorProps {
  kind: AssetKind;
  text: AssetText;
  /** without it, the text can only be read */
  onChange?: (text: AssetText) => void;
}

export function AssetEditor({ kind, text, onChange }: AssetEditorProps) {
  const read = readJson(text.declaration);
  const { code } = KINDS[kind];
  const set = (change: Partial<AssetText>) => onChange?.({ ...text, ...change });
  const editing = onChange !== undefined;
  return (
    <div className="stack">
      <div className={classes.columns}>
        <div>
          <h2>Declaration</h2>
          <CodeEditor
            label="Declaration"
            language="json"
            height="460px"
            value={text.declaration}
            error={"error" in read ? read.error : null}
            onChange={editing ? (declaration) => set({ declaration }) : undefined}
          />
          {"error" in read && (
            <p role="alert" style={{ color: "var(--danger)" }}>
              Line {read.error.line}: {read.error.message}
            </p>
          )}
        </div>
        {code === "source" && (
          <div>
            <h2>Source</h2>
            <CodeEditor
              label="Source"
              language="python"
              height="460px"
              value={text.source}
              onChange={editing ? (source) => set({ source }) : undefined}
            />
          </div>
        )}
        {code === "files" && (
          <Files
            files={text.files}
            onChange={editing ? (files) => set({ files }) : undefined}
          />
        )}
      </div>
      {editing ? (
        <Textarea
          label="Documentation"
          description="Markdown"
          autosize
          minRows={3}
          maxRows={16}
          value={text.documentation}
          onChange={(event) => set({ documentation: event.currentTarget.value })}
        />
      ) : (
        text.documentation !== "" && <p className={classes.text}>{text.documentation}</p>
      )}
    </div>
  );
}

interface FilesProps {
  files: Record<string, string>;
  onChange?: (files: Record<string, string>) => void;
}

const NEW_FILE = "New file…";

function Files({ files, onChange }: FilesProps) {
  const names = Object.keys(files).sort();
  const [chosen, setChosen] = useState(names[0] ?? "");
  const [name, setName] = useState("");
  const add = () => {
    if (onChange === undefined || name === "" || name in files) return;
    onChange({ ...files, [name]: "" });
    setChosen(name);
    setName("");
  };
  return (
    <div>
      <div className="row" style={{ justifyContent: "space-between", marginBottom: 6 }}>
        <h2 style={{ margin: 0 }}>Files</h2>
        <div className="row">
          <Select size="xs" aria-label="File" data={names} value={chosen} onChange={(next) => setChosen(next ?? "")} />
          {onChange !== undefined && (
            <input
              aria-label="Name of a new file"
              placeholder={NEW_FILE}
              value={name}
              onChange={(event) => setName(event.currentTarget.value)}
              onBlur={add}
              onKeyDown={(event) => {
                if (event.key !== "Enter") return;
                event.preventDefault();
                add();
              }}
            />
          )}
        </div>
      </div>
      <CodeEditor
        label={`File ${chosen}`}
        language={chosen.endsWith(".py") ? "python" : "text"}
        height="460px"
        value={files[chosen] ?? ""}
        onChange={onChange === undefined ? undefined : (text) => onChange({ ...files, [chosen]: text })}
      />
    </div>
  );
}
