/** Sets up an experiment: a toolchain, and for each of its blocks what runs it and where. */
import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { Page } from "@/components/ui/page";
import { Empty, Loading, Problem } from "@/components/ui/states-of-a-page";
import { allDeclaredQuery, declaredQuery } from "@/lib/api/queries/get-declared";
import { experimentQuery } from "@/lib/api/queries/get-experiment";
import { usableQueuesQuery } from "@/lib/api/queries/get-usable-queues";
import type { AlgorithmDeclaration, DeclaredSummary } from "@/lib/api/types";
import type { Algorithm } from "./candidates";
import { datasetOffers } from "./configuration";
import { ExperimentForm } from "./experiment-form";

export function NewExperimentPage() {
  const search = useSearch({ from: "/inside/experiments/new" });
  const navigate = useNavigate({ from: "/experiments/new" });
  const toolchains = useQuery(allDeclaredQuery("toolchains"));
  const edited = useQuery({ ...experimentQuery(search.edit ?? ""), enabled: search.edit !== undefined });
  const ref = edited.data?.toolchain ?? search.toolchain ?? toolchains.data?.[0]?.ref;
  const error = toolchains.error ?? edited.error;
  return (
    <Page
      title={search.edit === undefined ? "New experiment" : "Edit the set-up"}
      about="Choose a toolchain; everything else has a default that you can change."
    >
      {error !== null && <Problem error={error} />}
      {toolchains.data?.length === 0 && (
        <Empty
          title="There is no toolchain yet"
          action={
            <Link to="/library/$kind/new" params={{ kind: "toolchains" }}>
              Write a toolchain
            </Link>
          }
        >
          A toolchain says which blocks there are and how data flows between them.
        </Empty>
      )}
      {ref !== undefined && (search.edit === undefined || edited.data !== undefined) && (
        <div className="stack">
          <Select
            label="Toolchain"
            searchable
            limit={50}
            disabled={search.edit !== undefined}
            maw={460}
            data={toolchains.data?.map((each) => each.ref) ?? [ref]}
            value={ref}
            onChange={(toolchain) =>
              void navigate({ search: { toolchain: toolchain ?? undefined }, replace: true })
            }
          />
          <Parts key={ref} toolchain={ref} edited={edited.data ?? null} />
        </div>
      )}
      {toolchains.isPending && <Loading />}
    </Page>
  );
}

interface PartsProps {
  toolchain: string;
  edited: Parameters<typeof ExperimentForm>[0]["edited"];
}

/** Everything that can be chosen from must be there before the form has defaults. */
function Parts({ toolchain, edited }: PartsProps) {
  const declared = useQuery(declaredQuery("toolchains", toolchain));
  const algorithms = useQuery(allDeclaredQuery("algorithms"));
  const databases = useQuery(allDeclaredQuery("databases"));
  const queues = useQuery(usableQueuesQuery);
  const failed = [declared, algorithms, databases, queues].find((query) => query.error !== null);
  if (failed !== undefined) {
    return <Problem error={failed.error} retry={() => void failed.refetch()} />;
  }
  if (
    declared.data === undefined ||
    algorithms.data === undefined ||
    databases.data === undefined ||
    queues.data === undefined
  ) {
    return <Loading />;
  }
  if (queues.data.length === 0) {
    return (
      <Empty title="You may not use any queue yet">
        Queues are opened to groups of users. Ask an administrator for a right to a slot on one of
        them.
      </Empty>
    );
  }
  return (
    <ExperimentForm
      toolchain={declared.data}
      algorithms={algorithms.data.flatMap(readable)}
      offers={datasetOffers(databases.data)}
      queues={queues.data}
      edited={edited}
    />
  );
}

/** Somebody may let others run an algorithm without showing how it is declared. */
function readable(summary: DeclaredSummary): Algorithm[] {
  if (summary.declaration === null) return [];
  const { ref, owner, name, version } = summary;
  const declaration = summary.declaration as unknown as AlgorithmDeclaration;
  return [{ ref, owner, name, version, declaration }];
}
