/** Writes a new thing of the library, or a new version of one that is there. */
import { Button, NumberInput, Select, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { Page } from "@/components/ui/page";
import { Empty, Loading, Problem } from "@/components/ui/states-of-a-page";
import { say } from "@/components/ui/toasts";
import { declaredQuery } from "@/lib/api/queries/get-declared";
import type { AssetKind, Declared, Visibility } from "@/lib/api/types";
import { useAssetChanges } from "./api/change-asset";
import { AssetEditor, type AssetText } from "./asset-editor";
import { textOf } from "./asset-text";
import { kindOf, KINDS } from "./kinds";
import { readJson } from "./read-json";

export function NewAssetPage() {
  const params = useParams({ from: "/inside/library/$kind/new" });
  const { from } = useSearch({ from: "/inside/library/$kind/new" });
  const kind = kindOf(params.kind);
  const original = useQuery({
    ...declaredQuery(kind ?? "toolchains", from ?? ""),
    enabled: kind !== null && from !== undefined,
  });
  if (kind === null) return <Empty title="The library has no such room" />;
  return (
    <Page title={`New ${KINDS[kind].one}`} about={KINDS[kind].about}>
      {original.error !== null && <Problem error={original.error} />}
      {from !== undefined && original.isPending ? (
        <Loading />
      ) : (
        <NewAsset key={from ?? kind} kind={kind} original={original.data ?? null} />
      )}
    </Page>
  );
}

function NewAsset({ kind, original }: { kind: AssetKind; original: Declared | null }) {
  const { starts, code } = KINDS[kind];
  const [name, setName] = useState(original?.name ?? "");
  const [version, setVersion] = useState<number | null>(null);
  const [visibility, setVisibility] = useState<Visibility>(original?.visibility ?? "private");
  const [text, setText] = useState<AssetText>(() =>
    original === null
      ? {
          declaration: JSON.stringify(starts.declaration, null, 2),
          source: starts.source ?? "",
          files: starts.files ?? {},
          documentation: "",
        }
      : textOf(original),
  );
  const { create } = useAssetChanges(kind);
  const navigate = useNavigate();
  const read = readJson(text.declaration);
  const save = () => {
    if ("error" in read) return;
    create.mutate(
      {
        name,
        version,
        visibility: visibility === "shared" ? "private" : visibility,
        declaration: read.value,
        documentation: text.documentation,
        ...(code === "source" ? { source: text.source } : {}),
        ...(code === "files" ? { files: text.files } : {}),
      },
      {
        onSuccess: (made) => {
          say(`${made.ref} is saved`);
          void navigate({ to: "/library/$kind/view/$", params: { kind, _splat: made.ref } });
        },
      },
    );
  };
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        save();
      }}
    >
      <div className="form-grid">
        <TextInput
          label="Name"
          required
          maxLength={100}
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
        <NumberInput
          label="Version"
          placeholder="the next one"
          min={1}
          allowDecimal={false}
          value={version ?? ""}
          onChange={(value) => setVersion(value === "" ? null : Number(value))}
        />
        <Select
          label="Seen by"
          data={[
            { value: "private", label: "only me" },
            { value: "public", label: "everybody" },
          ]}
          value={visibility === "public" ? "public" : "private"}
          onChange={(value) => setVisibility(value === "public" ? "public" : "private")}
        />
      </div>
      <AssetEditor kind={kind} text={text} onChange={setText} />
      {create.error !== null && <Problem error={create.error} />}
      <div className="row" style={{ justifyContent: "flex-end" }}>
        <Button type="submit" loading={create.isPending} disabled={"error" in read}>
          Save
        </Button>
      </div>
    </form>
  );
}
