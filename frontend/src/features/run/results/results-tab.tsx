/** What the analyzers found: numbers, tables, plots. */
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense } from "react";
import { useStore } from "zustand";
import { Section } from "@/components/ui/page";
import { Empty, Loaded, Loading } from "@/components/ui/states-of-a-page";
import type { Result } from "@/lib/api/types";
import type { Topology } from "@/lib/graph/topology";
import { resultsQuery } from "../api/get-results";
import { useRunView } from "../graph/run-context";
import { asScalar, asTable } from "./read-result";
import { ResultTable } from "./result-table";
import classes from "./results.module.css";

const VegaPlot = lazy(() => import("./vega-plot"));

export function ResultsTab({ experiment, topology }: { experiment: string; topology: Topology }) {
  const { store } = useRunView();
  const analyzers = topology.nodes.filter((node) => node.kind === "analyzer");
  const finished = useStore(
    store,
    (run) =>
      analyzers.filter((node) => ["done", "cached"].includes(run.blocks[node.name]?.state ?? ""))
        .length,
  );
  const query = useQuery(resultsQuery(experiment, finished));
  return (
    <div className={classes.results}>
      <Loaded query={query}>
        {(results) =>
          results.analyzers.length === 0 ? (
            <Empty title="No results yet">
              {analyzers.length === 1
                ? "They appear here as soon as the analyzer has finished."
                : `They appear here as soon as one of the ${analyzers.length} analyzers has finished.`}
            </Empty>
          ) : (
            results.analyzers.map((analyzer) => (
              <Section key={analyzer.block} title={analyzer.block}>
                <AnalyzerResults results={analyzer.results} />
              </Section>
            ))
          )
        }
      </Loaded>
    </div>
  );
}

function AnalyzerResults({ results }: { results: Record<string, Result> }) {
  const shown = Object.entries(results).filter(([, result]) => result.display !== false);
  const scalars = shown.flatMap(([name, result]) => {
    const text = asScalar(result.value);
    return text === null ? [] : [{ name, text }];
  });
  const others = shown.filter(([, result]) => asScalar(result.value) === null);
  return (
    <div className="stack">
      {scalars.length > 0 && (
        <dl className={classes.scalars}>
          {scalars.map(({ name, text }) => (
            <div key={name}>
              <dt>{name.replaceAll("_", " ")}</dt>
              <dd>{text}</dd>
            </div>
          ))}
        </dl>
      )}
      <div className={classes.figures}>
        {others.map(([name, result]) => (
          <figure key={name} className={`card ${classes.figure ?? ""}`}>
            <figcaption>{name.replaceAll("_", " ")}</figcaption>
            <Figure name={name} result={result} />
          </figure>
        ))}
      </div>
    </div>
  );
}

function Figure({ name, result }: { name: string; result: Result }) {
  const table = asTable(result.value);
  if (table !== null) return <ResultTable name={name} table={table} />;
  if (result.type.startsWith("plot/vega_lite/")) {
    return (
      <Suspense fallback={<Loading label="Drawing…" />}>
        <VegaPlot name={name} specification={result.value} />
      </Suspense>
    );
  }
  return <pre className={classes.raw}>{JSON.stringify(result.value, null, 2)}</pre>;
}
