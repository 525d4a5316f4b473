/** A table whose lines can be added, changed and deleted in a form made from a list of fields. */
import { ActionIcon, Button, Checkbox, Modal, MultiSelect, NumberInput, PasswordInput, Select, Textarea, TextInput } from "@mantine/core";
import { IconPencil, IconTrash } from "@tabler/icons-react";
import { useState, type ReactNode } from "react";
import { ApiProblem } from "@/lib/api/client";
import { Confirm } from "./confirm";
import { Problem } from "./states-of-a-page";

export type Value = string | number | boolean | string[] | null;
export type Values = Record<string, Value>;

export interface Field {
  name: string;
  label: string;
  type: "text" | "password" | "number" | "long" | "yes-no" | "choice" | "choices";
  hint?: string;
  required?: boolean;
  options?: { value: string; label: string }[];
  /** only when it is made; after that it stays */
  once?: boolean;
  /** what a new one begins with */
  start?: Value;
}

interface Column<T> {
  label: string;
  number?: boolean;
  show: (row: T) => ReactNode;
}

interface EditableTableProps<T> {
  rows: T[];
  columns: Column<T>[];
  fields: Field[];
  /** one of them in words: "queue" */
  what: string;
  keyOf: (row: T) => string;
  nameOf: (row: T) => string;
  valuesOf: (row: T) => Values;
  onCreate?: (values: Values) => Promise<unknown>;
  onChange?: (row: T, values: Values) => Promise<unknown>;
  onDelete?: (row: T) => Promise<unknown>;
  more?: (row: T) => ReactNode;
}

export function EditableTable<T>(props: EditableTableProps<T>) {
  const { rows, columns, fields, what, keyOf, nameOf, valuesOf, onCreate, onChange, onDelete, more } = props;
  const [editing, setEditing] = useState<{ row: T | null } | null>(null);
  const [deleting, setDeleting] = useState<T | null>(null);
  const row = editing?.row ?? null;
  const save = async (values: Values) => {
    if (row === null) await onCreate?.(values);
    else await onChange?.(row, values);
    setEditing(null);
  };
  return (
    <div className="stack">
      {onCreate !== undefined && (
        <Button style={{ alignSelf: "flex-start" }} size="xs" variant="default" onClick={() => setEditing({ row: null })}>
          New {what}
        </Button>
      )}
      <div className="table-frame">
        <table className="table">
          <thead>
            <tr>
              {columns.map((column) => (
                <th key={column.label} className={column.number === true ? "number" : undefined}>
                  {column.label}
                </th>
              ))}
              <th aria-label="Actions" />
            </tr>
          </thead>
          <tbody>
            {rows.map((each) => (
              <tr key={keyOf(each)}>
                {columns.map((column) => (
                  <td key={column.label} className={column.number === true ? "number" : undefined} style={{ overflowWrap: "anywhere" }}>
                    {column.show(each)}
                  </td>
                ))}
                <td>
                  <div className="row" style={{ justifyContent: "flex-end" }}>
                    {more?.(each)}
                    {onChange !== undefined && (
                      <ActionIcon variant="subtle" aria-label={`Change ${nameOf(each)}`} onClick={() => setEditing({ row: each })}>
                        <IconPencil size={16} />
                      </ActionIcon>
                    )}
                    {onDelete !== undefined && (
                      <ActionIcon variant="subtle" color="red" aria-label={`Delete ${nameOf(each)}`} onClick={() => setDeleting(each)}>
                        <IconTrash size={16} />
                      </ActionIcon>
                    )}
                  </div>
                </td>
              </tr>
            ))}
            {rows.length === 0 && (
              <tr>
                <td colSpan={columns.length + 1} className="soft">
                  There is no {what} yet.
                </td>
              </tr>
            )}
          </tbody>
        </table>
      </div>
      <Modal
        opened={editing !== null}
        onClose={() => setEditing(null)}
        title={row === null ? `New ${what}` : `Change ${nameOf(row)}`}
      >
        {editing !== null && (
          <FieldsForm
            fields={row === null ? fields : fields.filter((field) => field.once !== true)}
            start={row === null ? startOf(fields) : valuesOf(row)}
            onSave={save}
          />
        )}
      </Modal>
      <Confirm
        opened={deleting !== null}
        title={`Delete ${deleting === null ? "" : nameOf(deleting)}?`}
        action={`Delete the ${what}`}
        onClose={() => setDeleting(null)}
        onConfirm={async () => {
          if (deleting !== null) await onDelete?.(deleting);
        }}
      >
        What runs or waits with it is told to you before anything is deleted.
      </Confirm>
    </div>
  );
}

function startOf(fields: Field[]): Values {
  return Object.fromEntries(fields.map((field) => [field.name, field.start ?? EMPTY[field.type]]));
}

const EMPTY: Record<Field["type"], Value> = {
  text: "",
  password: "",
  number: null,
  long: "",
  "yes-no": false,
  choice: null,
  choices: [],
};

interface FieldsFormProps {
  fields: Field[];
  start: Values;
  onSave: (values: Values) => Promise<void>;
}

function FieldsForm({ fields, start, onSave }: FieldsFormProps) {
  const [values, setValues] = useState(start);
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const places = error instanceof ApiProblem ? error.places : [];
  const save = async () => {
    setBusy(true);
    setError(null);
    try {
      await onSave(Object.fromEntries(fields.map((field) => [field.name, values[field.name] ?? null])));
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
        void save();
      }}
    >
      {fields.map((field) => (
        <FieldInput
          key={field.name}
          field={field}
          value={values[field.name] ?? null}
          error={places.find((place) => place.pointer === `/${field.name}`)?.message}
          onChange={(value) => setValues((before) => ({ ...before, [field.name]: value }))}
        />
      ))}
      {error !== null && <Problem error={error} />}
      <Button type="submit" loading={busy}>
        Save
      </Button>
    </form>
  );
}

interface FieldInputProps {
  field: Field;
  value: Value;
  error: string | undefined;
  onChange: (value: Value) => void;
}

function FieldInput({ field, value, error, onChange }: FieldInputProps) {
  const common = { label: field.label, description: field.hint, required: field.required, error };
  const text = typeof value === "string" ? value : "";
  switch (field.type) {
    case "text":
      return <TextInput {...common} value={text} onChange={(event) => onChange(event.currentTarget.value)} />;
    case "password":
      return (
        <PasswordInput {...common} autoComplete="new-password" value={text} onChange={(event) => onChange(event.currentTarget.value)} />
      );
    case "long":
      return (
        <Textarea {...common} autosize minRows={2} maxRows={10} value={text} onChange={(event) => onChange(event.currentTarget.value)} />
      );
    case "number":
      return (
        <NumberInput
          {...common}
          allowDecimal={false}
          value={typeof value === "number" ? value : ""}
          onChange={(next) => onChange(next === "" ? null : Number(next))}
        />
      );
    case "yes-no":
      return (
        <Checkbox
          label={field.label}
          description={field.hint}
          error={error}
          checked={value === true}
          onChange={(event) => onChange(event.currentTarget.checked)}
        />
      );
    case "choice":
      return <Select {...common} data={field.options} value={text || null} onChange={(next) => onChange(next)} />;
    case "choices":
      return (
        <MultiSelect {...common} data={field.options} value={Array.isArray(value) ? value : []} onChange={(next) => onChange(next)} />
      );
  }
}
