/** Asks before something that cannot be undone; the gravest want a word typed. */
import { Button, Modal, TextInput } from "@mantine/core";
import { useState, type ReactNode } from "react";
import { Problem } from "./states-of-a-page";

interface ConfirmProps {
  opened: boolean;
  title: string;
  children: ReactNode;
  action: string;
  /** what has to be typed before the button works */
  typed?: string;
  onConfirm: () => Promise<unknown>;
  onClose: () => void;
}

export function Confirm({ opened, onClose, title, ...rest }: ConfirmProps) {
  return (
    <Modal opened={opened} onClose={onClose} title={title} size="md">
      {opened && <Question {...rest} onClose={onClose} />}
    </Modal>
  );
}

function Question({
  children,
  action,
  typed,
  onConfirm,
  onClose,
}: Omit<ConfirmProps, "opened" | "title">) {
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const confirm = async () => {
    setBusy(true);
    setError(null);
    try {
      await onConfirm();
      onClose();
    } catch (problem) {
      setError(problem);
    } finally {
      setBusy(false);
    }
  };
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        void confirm();
      }}
    >
      <div>{children}</div>
      {typed !== undefined && (
        <TextInput
          label={
            <>
              Type <b>{typed}</b> to go on
            </>
          }
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
          autoComplete="off"
          data-autofocus
        />
      )}
      {error !== null && <Problem error={error} />}
      <div className="row" style={{ justifyContent: "flex-end" }}>
        <Button variant="default" onClick={onClose}>
          Keep it as it is
        </Button>
        <Button
          type="submit"
          color="red"
          loading={busy}
          disabled={typed !== undefined && text !== typed}
        >
          {action}
        </Button>
      </div>
    </form>
  );
}
