/** All things of one kind that one may see. */
import { Button } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { Page } from "@/components/ui/page";
import { SearchInput } from "@/components/ui/search-input";
import { Empty, Loaded } from "@/components/ui/states-of-a-page";
import { Ago } from "@/components/ui/times";
import type { AssetKind, DeclaredSummary } from "@/lib/api/types";
import { assetsQuery } from "./api/get-assets";
import { kindOf, KINDS } from "./kinds";
import classes from "./assets.module.css";

export function AssetsPage() {
  const params = useParams({ from: "/inside/library/$kind" });
  const kind = kindOf(params.kind);
  if (kind === null) return <Empty title="The library has no such room" />;
  return <Assets key={kind} kind={kind} />;
}

function Assets({ kind }: { kind: AssetKind }) {
  const { q } = useSearch({ from: "/inside/library/$kind" });
  const navigate = useNavigate({ from: "/library/$kind" });
  const query = useInfiniteQuery(assetsQuery(kind, q));
  const words = KINDS[kind];
  const newOne = (
    <Button
      leftSection={<IconPlus size={16} />}
      renderRoot={(props) => <Link to="/library/$kind/new" params={{ kind }} {...props} />}
    >
      New {words.one}
    </Button>
  );
  return (
    <Page title={words.many} about={words.about} actions={newOne}>
      <div className="stack">
        <div style={{ maxWidth: 320 }}>
          <SearchInput
            label="Search by name"
            value={q ?? ""}
            onChange={(text) => void navigate({ search: { q: text || undefined }, replace: true })}
          />
        </div>
        <Loaded query={query}>
          {(data) => {
            const items = data.pages.flatMap((page) => page.items);
            if (items.length > 0) return <AssetTable kind={kind} items={items} />;
            return q === undefined ? (
              <Empty title={`There is no ${words.one} yet`} action={newOne}>
                {words.about}
              </Empty>
            ) : (
              <Empty title={`No ${words.one} has this in its name`} />
            );
          }}
        </Loaded>
        {query.hasNextPage && (
          <Button
            variant="default"
            loading={query.isFetchingNextPage}
            onClick={() => void query.fetchNextPage()}
          >
            Show more
          </Button>
        )}
      </div>
    </Page>
  );
}

function AssetTable({ kind, items }: { kind: AssetKind; items: DeclaredSummary[] }) {
  return (
    <div className="table-frame">
      <table className="table">
        <thead>
          <tr>
            <th>Name</th>
            <th className={classes.wide}>What it is</th>
            <th>Seen by</th>
            <th className={classes.wide}>Created</th>
          </tr>
        </thead>
        <tbody>
          {items.map((item) => (
            <tr key={item.id}>
              <td className={classes.ref}>
                <Link to="/library/$kind/view/$" params={{ kind, _splat: item.ref }} title={item.ref}>
                  {item.ref}
                </Link>
              </td>
              <td className={`soft ${classes.wide ?? ""}`}>{item.description}</td>
              <td>{seenBy(item)}</td>
              <td className={`soft ${classes.wide ?? ""}`}>
                <Ago time={item.created_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function seenBy({ visibility, owner }: DeclaredSummary): string {
  if (visibility === "private") return `only ${owner}`;
  return visibility === "shared" ? "some groups" : "everybody";
}
