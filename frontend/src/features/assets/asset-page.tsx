/** One thing of the library: read it, change it while it is one's own and unused, share it. */
import { ActionIcon, Button, Menu } from "@mantine/core";
import { IconCopyPlus, IconDots, IconFlask2, IconTrash } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { Confirm } from "@/components/ui/confirm";
import { Page } from "@/components/ui/page";
import { Empty, Loading, Problem } from "@/components/ui/states-of-a-page";
import { Ago } from "@/components/ui/times";
import { complain, say } from "@/components/ui/toasts";
import { declaredQuery } from "@/lib/api/queries/get-declared";
import { useMe } from "@/lib/api/session";
import type { AssetKind, Declared } from "@/lib/api/types";
import { useAssetChanges } from "./api/change-asset";
import { AssetEditor } from "./asset-editor";
import { textOf } from "./asset-text";
import { DatabaseFiles } from "./database-files";
import { kindOf, KINDS } from "./kinds";
import { readJson } from "./read-json";
import classes from "./assets.module.css";

export function AssetPage() {
  const { kind: room, _splat: ref = "" } = useParams({ from: "/inside/library/$kind/view/$" });
  const kind = kindOf(room);
  const query = useQuery({ ...declaredQuery(kind ?? "toolchains", ref), enabled: kind !== null });
  if (kind === null) return <Empty title="The library has no such room" />;
  if (query.data !== undefined) {
    return <Asset key={`${query.data.id} ${query.data.revision}`} kind={kind} asset={query.data} />;
  }
  return (
    <Page title={ref}>
      {query.error === null ? (
        <Loading />
      ) : (
        <Problem error={query.error} retry={() => void query.refetch()} />
      )}
    </Page>
  );
}

function Asset({ kind, asset }: { kind: AssetKind; asset: Declared }) {
  const me = useMe();
  const mine = me !== null && (me.username === asset.owner || me.admin);
  const editable = mine && !asset.frozen;
  const [text, setText] = useState(() => textOf(asset));
  const { update } = useAssetChanges(kind);
  const read = readJson(text.declaration);
  const changed = JSON.stringify(text) !== JSON.stringify(textOf(asset));
  const save = () => {
    if ("error" in read) return;
    const { code } = KINDS[kind];
    update.mutate(
      {
        asset,
        change: {
          declaration: read.value,
          documentation: text.documentation,
          ...(code === "source" ? { source: text.source } : {}),
          ...(code === "files" ? { files: text.files } : {}),
        },
      },
      { onSuccess: () => say(`${asset.ref} is saved`) },
    );
  };
  return (
    <Page
      title={asset.ref}
      about={
        <>
          <span>{asset.description}</span>
          <span>
            {KINDS[kind].one} of {asset.owner}, created <Ago time={asset.created_at} />
          </span>
          {asset.frozen && <span>fixed: an experiment has used it</span>}
        </>
      }
      actions={<Actions kind={kind} asset={asset} mine={mine} />}
    >
      <div className="stack">
        {asset.declaration === null ? (
          <Empty title="Its owner shows no declaration" />
        ) : (
          <AssetEditor kind={kind} text={text} onChange={editable ? setText : undefined} />
        )}
        {update.error !== null && <Problem error={update.error} />}
        {editable && (
          <div className={classes.bar}>
            <Button variant="default" disabled={!changed} onClick={() => setText(textOf(asset))}>
              Discard the changes
            </Button>
            <Button disabled={!changed || "error" in read} loading={update.isPending} onClick={save}>
              Save
            </Button>
          </div>
        )}
        {kind === "databases" && <DatabaseFiles asset={asset} mine={editable} />}
      </div>
    </Page>
  );
}

function Actions({ kind, asset, mine }: { kind: AssetKind; asset: Declared; mine: boolean }) {
  const { share, remove } = useAssetChanges(kind);
  const [deleting, setDeleting] = useState(false);
  const navigate = useNavigate();
  const everybody = asset.visibility === "public";
  return (
    <>
      {kind === "toolchains" && (
        <Button
          leftSection={<IconFlask2 size={16} />}
          renderRoot={(props) => (
            <Link to="/experiments/new" search={{ toolchain: asset.ref }} {...props} />
          )}
        >
          New experiment
        </Button>
      )}
      <Button
        variant="default"
        leftSection={<IconCopyPlus size={16} />}
        renderRoot={(props) => (
          <Link to="/library/$kind/new" params={{ kind }} search={{ from: asset.ref }} {...props} />
        )}
      >
        New version
      </Button>
      {mine && (
        <Menu>
          <Menu.Target>
            <ActionIcon variant="default" size={36} aria-label="More actions">
              <IconDots size={18} />
            </ActionIcon>
          </Menu.Target>
          <Menu.Dropdown>
            <Menu.Item
              onClick={() =>
                share.mutate(
                  { asset, visibility: everybody ? "private" : "public", groups: [] },
                  {
                    onSuccess: () => say(everybody ? "Only you see it now" : "Everybody sees it now"),
                    onError: complain,
                  },
                )
              }
            >
              {everybody ? "Show it to nobody else" : "Show it to everybody"}
            </Menu.Item>
            <Menu.Item color="red" leftSection={<IconTrash size={16} />} onClick={() => setDeleting(true)}>
              Delete…
            </Menu.Item>
          </Menu.Dropdown>
        </Menu>
      )}
      <Confirm
        opened={deleting}
        title={`Delete ${asset.ref}?`}
        action={`Delete the ${KINDS[kind].one}`}
        onClose={() => setDeleting(false)}
        onConfirm={async () => {
          await remove.mutateAsync(asset);
          say(`${asset.ref} is deleted`);
          await navigate({ to: "/library/$kind", params: { kind } });
        }}
      >
        This cannot be undone. What an experiment has used stays and cannot be deleted.
      </Confirm>
    </>
  );
}
