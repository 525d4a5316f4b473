/** Something that is shown once. */
import { Button, TextInput } from "@mantine/core";
import { useState } from "react";

export function Secret({ value, onDone }: { value: string; onDone: () => void }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(value);
    setCopied(true);
  };
  return (
    <div className="stack">
      <TextInput
        label="Copy it now: it is not shown again"
        value={value}
        readOnly
        className="mono"
        onFocus={(event) => event.currentTarget.select()}
      />
      <div className="row" style={{ justifyContent: "flex-end" }}>
        {/* The clipboard is there on https and on this machine only. */}
        {window.isSecureContext && (
          <Button variant="default" onClick={() => void copy()}>
            {copied ? "Copied" : "Copy"}
          </Button>
        )}
        <Button onClick={onDone}>I have it</Button>
      </div>
    </div>
  );
}
