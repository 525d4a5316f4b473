/** All experiments that one may see, newest first, with their states as they change. */
import { Button, Select } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { Page } from "@/components/ui/page";
import { SearchInput } from "@/components/ui/search-input";
import { Empty, Loaded } from "@/components/ui/states-of-a-page";
import { useMe } from "@/lib/api/session";
import { EXPERIMENT_STATES } from "@/lib/state/states";
import { experimentsQuery, type ExperimentFilter } from "./api/get-experiments";
import { ExperimentTable } from "./components/experiment-table";
import { useLiveList } from "./use-live-list";

export function ExperimentsPage() {
  const filter = useSearch({ from: "/inside/experiments" });
  const query = useInfiniteQuery(experimentsQuery(filter));
  useLiveList();
  return (
    <Page
      title="Experiments"
      actions={
        <Button
          leftSection={<IconPlus size={16} />}
          renderRoot={(props) => <Link to="/experiments/new" {...props} />}
        >
          New experiment
        </Button>
      }
    >
      <div className="stack">
        <Filters filter={filter} />
        <Loaded query={query}>
          {(data) => {
            const items = data.pages.flatMap((page) => page.items);
            if (items.length === 0) return <Nothing filter={filter} />;
            return <ExperimentTable items={items} />;
          }}
        </Loaded>
        {query.hasNextPage && (
          <Button
            variant="default"
            loading={query.isFetchingNextPage}
            onClick={() => void query.fetchNextPage()}
          >
            Show older experiments
          </Button>
        )}
      </div>
    </Page>
  );
}

function Filters({ filter }: { filter: ExperimentFilter }) {
  const navigate = useNavigate({ from: "/experiments" });
  const me = useMe();
  const set = (change: ExperimentFilter) =>
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
  return (
    <div className="row wrap">
      <div style={{ flex: "1 1 220px", maxWidth: 320 }}>
        <SearchInput
          label="Search by name"
          value={filter.q ?? ""}
          onChange={(q) => set({ q: q || undefined })}
        />
      </div>
      <Select
        aria-label="State"
        placeholder="Any state"
        clearable
        allowDeselect
        w={150}
        data={[...EXPERIMENT_STATES]}
        value={filter.state ?? null}
        onChange={(state) => set({ state: state ?? undefined })}
      />
      <Select
        aria-label="Owner"
        w={150}
        data={[
          { value: "", label: "Everybody's" },
          { value: me?.username ?? "me", label: "Mine" },
        ]}
        value={filter.owner ?? ""}
        onChange={(owner) => set({ owner: owner || undefined })}
      />
    </div>
  );
}

function Nothing({ filter }: { filter: ExperimentFilter }) {
  if (Object.values(filter).some((value) => value !== undefined)) {
    return (
      <Empty
        title="No experiment matches"
        action={<Link to="/experiments">Show all experiments</Link>}
      >
        Nothing that you may see has this name, state and owner together.
      </Empty>
    );
  }
  return (
    <Empty
      title="No experiments yet"
      action={
        <Button renderRoot={(props) => <Link to="/experiments/new" {...props} />}>
          Set up the first one
        </Button>
      }
    >
      An experiment is a toolchain with an algorithm chosen for each of its blocks. It runs on the
      queues that your groups have a right to.
    </Empty>
  );
}
