/** One experiment: its dataflow as it runs, the same as a table, its results, how it is set up. */
import { Tabs } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useEffect, useMemo, useState } from "react";
import { useStore } from "zustand";
import { Page } from "@/components/ui/page";
import { StateBadge } from "@/components/ui/state-badge";
import { StateLegend } from "@/components/ui/state-bar";
import { Loading, Problem } from "@/components/ui/states-of-a-page";
import { Ago, Elapsed } from "@/components/ui/times";
import type { Experiment } from "@/lib/api/types";
import { reachable, topologyOf } from "@/lib/graph/topology";
import type { Direction } from "@/lib/graph/geometry";
import { useRun } from "@/lib/live/live";
import type { RunStore } from "@/lib/live/run-store";
import { countStates, type BlockState } from "@/lib/state/states";
import { experimentQuery } from "@/lib/api/queries/get-experiment";
import { About } from "./about";
import { Announcer } from "./announcer";
import { Dataflow } from "./graph/dataflow";
import { RunContext, type RunView } from "./graph/run-context";
import { BlockPanel } from "./panel/block-panel";
import { ResultsTab } from "./results/results-tab";
import { RunActions } from "./run-actions";
import { RunTable } from "./run-table";
import classes from "./run-page.module.css";

const TABS = ["dataflow", "table", "results", "setup"] as const;
type Tab = (typeof TABS)[number];
const DIRECTION_KEY = "gristmill-direction";

export function RunPage() {
  const { id } = useParams({ from: "/inside/experiments/$id" });
  const experiment = useQuery(experimentQuery(id));
  const store = useRun(id);
  const refused = useStore(store, (run) => run.refused);
  const deleted = useStore(store, (run) => run.deleted);
  if (deleted) {
    return (
      <Page title="Deleted experiment">
        <p>
          This experiment was deleted. <Link to="/experiments">Back to the experiments</Link>
        </p>
      </Page>
    );
  }
  if (experiment.data !== undefined) {
    return <Run key={id} experiment={experiment.data} store={store} refused={refused} />;
  }
  return (
    <Page title="Experiment">
      {experiment.error === null ? (
        <Loading />
      ) : (
        <Problem error={experiment.error} retry={() => void experiment.refetch()} />
      )}
    </Page>
  );
}

interface RunProps {
  experiment: Experiment;
  store: RunStore;
  refused: string | null;
}

function Run({ experiment, store, refused }: RunProps) {
  const search = useSearch({ from: "/inside/experiments/$id" });
  const navigate = useNavigate({ from: "/experiments/$id" });
  const tab: Tab = TABS.find((each) => each === search.tab) ?? "dataflow";
  const state = useStore(store, (run) => run.experiment) ?? experiment.state;
  const queries = useQueryClient();
  useEffect(() => {
    // Its times and rights come with the experiment itself.
    if (state === experiment.state) return;
    void queries.invalidateQueries({ queryKey: ["experiment", experiment.id], exact: true });
  }, [queries, state, experiment.state, experiment.id]);
  const [chosen, setChosen] = useState<ReadonlySet<BlockState>>(new Set());
  const [direction, setDirection] = useState<Direction>(() =>
    rememberedDirection(),
  );
  const topology = useMemo(
    () => topologyOf(experiment.toolchain_declaration),
    [experiment.toolchain_declaration],
  );
  const selected = topology.nodes.some((node) => node.name === search.block)
    ? search.block
    : undefined;
  const related = useMemo(
    () => (selected === undefined ? null : reachable(topology, selected)),
    [topology, selected],
  );
  const view = useMemo<RunView>(
    () => ({
      store,
      chosen,
      related,
      selected,
      direction,
      select: (block) =>
        void navigate({ search: (before) => ({ ...before, block }), replace: true }),
    }),
    [store, chosen, related, selected, direction, navigate],
  );
  const changeDirection = (turned: Direction) => {
    localStorage.setItem(DIRECTION_KEY, turned);
    setDirection(turned);
  };

  return (
    <Page
      full
      title={experiment.name}
      badge={<StateBadge state={state} large />}
      about={<Facts experiment={experiment} />}
      actions={<RunActions experiment={experiment} state={state} />}
    >
      {refused !== null && <Problem error={new Error(refused)} />}
      <RunContext value={view}>
        <div className={classes.bar}>
          <Tabs
            value={tab}
            onChange={(next) =>
              void navigate({ search: (before) => ({ ...before, tab: next ?? undefined }) })
            }
          >
            <Tabs.List>
              <Tabs.Tab value="dataflow">Dataflow</Tabs.Tab>
              <Tabs.Tab value="table">Table</Tabs.Tab>
              <Tabs.Tab value="results">Results</Tabs.Tab>
              <Tabs.Tab value="setup">Set-up</Tabs.Tab>
            </Tabs.List>
          </Tabs>
          <Legend store={store} chosen={chosen} onChoose={setChosen} />
        </div>
        <div className={classes.stage}>
          <div className={classes.view}>
            {tab === "dataflow" && <Dataflow topology={topology} onDirection={changeDirection} />}
            {tab === "table" && <RunTable topology={topology} />}
            {tab === "results" && <ResultsTab experiment={experiment.id} topology={topology} />}
            {tab === "setup" && <About experiment={experiment} />}
          </div>
          {selected !== undefined && tab !== "results" && tab !== "setup" && (
            <BlockPanel key={selected} experiment={experiment.id} name={selected} />
          )}
        </div>
        <Announcer name={experiment.name} />
      </RunContext>
    </Page>
  );
}

function Facts({ experiment }: { experiment: Experiment }) {
  return (
    <>
      <span>{experiment.owner}</span>
      <Link to="/library/$kind/view/$" params={{ kind: "toolchains", _splat: experiment.toolchain }}>
        {experiment.toolchain}
      </Link>
      {experiment.submitted_at !== null ? (
        <span>
          submitted <Ago time={experiment.submitted_at} />
        </span>
      ) : (
        <span>
          created <Ago time={experiment.created_at} />
        </span>
      )}
      {experiment.started_at !== null && (
        <span>
          {experiment.finished_at === null ? "running for" : "took"} <Elapsed start={experiment.started_at} end={experiment.finished_at} />
        </span>
      )}
    </>
  );
}

interface LegendProps {
  store: RunStore;
  chosen: ReadonlySet<BlockState>;
  onChoose: (chosen: ReadonlySet<BlockState>) => void;
}

function Legend({ store, chosen, onChoose }: LegendProps) {
  const blocks = useStore(store, (run) => run.blocks);
  const counts = useMemo(
    () => countStates(Object.values(blocks).map((block) => block.state)),
    [blocks],
  );
  const toggle = (state: BlockState) => {
    const next = new Set(chosen);
    if (!next.delete(state)) next.add(state);
    onChoose(next);
  };
  return <StateLegend counts={counts} chosen={chosen} onToggle={toggle} />;
}

/** As chosen before; on a phone the drawing has more room downwards. */
function rememberedDirection(): Direction {
  const chosen = localStorage.getItem(DIRECTION_KEY);
  if (chosen === "down" || chosen === "right") return chosen;
  return matchMedia("(max-width: 720px)").matches ? "down" : "right";
}
