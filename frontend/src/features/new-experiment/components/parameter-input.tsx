/** One parameter, by its declaration: left empty it has the algorithm's default. */
import { NumberInput, Select, TextInput } from "@mantine/core";
import type { ParameterDeclaration } from "@/lib/api/types";

interface ParameterInputProps {
  name: string;
  declaration: ParameterDeclaration;
  /** undefined: the default */
  value: unknown;
  error: string | undefined;
  onChange: (value: unknown) => void;
}

const INTEGER = /^u?int(8|16|32|64)$/;

export function ParameterInput({ name, declaration, value, error, onChange }: ParameterInputProps) {
  const standard = declaration.default === undefined ? "" : asText(declaration.default);
  const common = {
    label: name,
    description: hint(declaration),
    inputWrapperOrder: ["label", "input", "description", "error"] as ("label" | "input" | "description" | "error")[],
    error,
  };
  const choices = declaration.type === "bool" ? [true, false] : declaration.choice;
  if (choices !== undefined) {
    return (
      <Select
        {...common}
        clearable
        allowDeselect
        placeholder={standard}
        data={choices.map(asText)}
        value={value === undefined ? null : asText(value)}
        onChange={(text) => onChange(choices.find((choice) => asText(choice) === text))}
      />
    );
  }
  if (declaration.type.startsWith("float") || INTEGER.test(declaration.type)) {
    return (
      <NumberInput
        {...common}
        placeholder={standard}
        allowDecimal={!INTEGER.test(declaration.type)}
        min={declaration.range?.[0]}
        max={declaration.range?.[1]}
        clampBehavior="none"
        value={typeof value === "number" ? value : ""}
        onChange={(next) => onChange(next === "" ? undefined : Number(next))}
      />
    );
  }
  return (
    <TextInput
      {...common}
      placeholder={standard}
      value={typeof value === "string" ? value : ""}
      onChange={(event) => onChange(event.currentTarget.value || undefined)}
    />
  );
}

function asText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function hint({ description, range, type }: ParameterDeclaration): string {
  const bounds = range === undefined ? type : `${type}, ${range[0]} to ${range[1]}`;
  return description === undefined ? bounds : `${description} (${bounds})`;
}
