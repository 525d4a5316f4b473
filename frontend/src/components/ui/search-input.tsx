/** A box to type a filter into; what was typed counts once the typing pauses. */
import { TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { IconSearch } from "@tabler/icons-react";
import { useState } from "react";

interface SearchInputProps {
  label: string;
  value: string;
  onChange: (text: string) => void;
}

export function SearchInput({ label, value, onChange }: SearchInputProps) {
  const [text, setText] = useState(value);
  const tell = useDebouncedCallback(onChange, 250);
  return (
    <TextInput
      type="search"
      aria-label={label}
      placeholder={label}
      leftSection={<IconSearch size={15} aria-hidden />}
      value={text}
      onChange={(event) => {
        setText(event.currentTarget.value);
        tell(event.currentTarget.value);
      }}
    />
  );
}
