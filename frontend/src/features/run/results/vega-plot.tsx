/**
 * A Vega-Lite plot of an algorithm's making. It is foreign data: it is interpreted (no generated
 * code), may load nothing, and is drawn on a canvas, all within the page's security policy.
 */
import { useMantineColorScheme } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import { messageOf } from "@/lib/api/client";
import embed, { type VisualizationSpec } from "vega-embed";
import { expressionInterpreter } from "vega-interpreter";
import classes from "./results.module.css";

const NO_LOADER = {
  load: () => Promise.reject(new Error("A plot holds its data; it loads nothing.")),
  sanitize: () => Promise.reject(new Error("A plot links nowhere.")),
  http: () => Promise.reject(new Error("A plot loads nothing.")),
  file: () => Promise.reject(new Error("A plot loads nothing.")),
  options: undefined,
};

function colours(): Record<string, unknown> {
  const style = getComputedStyle(document.documentElement);
  const read = (name: string) => style.getPropertyValue(name).trim();
  const [ink, soft, line] = [read("--ink"), read("--ink-soft"), read("--line-strong")];
  return {
    background: "transparent",
    font: read("--sans") || "sans-serif",
    title: { color: ink, fontWeight: 600 },
    axis: { labelColor: soft, titleColor: ink, gridColor: read("--line"), domainColor: line, tickColor: line },
    legend: { labelColor: soft, titleColor: ink },
    view: { stroke: line },
    range: {
      category: ["--running", "--queued", "--done", "--cancelling", "--assigned", "--lost"].map(read),
    },
  };
}

export default function VegaPlot({ name, specification }: { name: string; specification: unknown }) {
  const host = useRef<HTMLDivElement>(null);
  const { colorScheme } = useMantineColorScheme({ keepTransitions: true });
  const [error, setError] = useState<string | null>(null);
  useEffect(() => {
    const element = host.current;
    if (element === null) return;
    let finish: (() => void) | null = null;
    let left = false;
    embed(element, specification as VisualizationSpec, {
      actions: false,
      ast: true,
      expr: expressionInterpreter,
      loader: NO_LOADER,
      renderer: "canvas",
      logLevel: 1, // errors: an older version of the schema is no news to the reader
      defaultStyle: false,
      tooltip: (_handler, _event, _item, value) => {
        element.title = value == null ? "" : tooltipText(value);
      },
      config: colours(),
    }).then(
      (result) => {
        finish = () => result.finalize();
        if (left) finish();
        setError(null);
      },
      (problem: unknown) => setError(messageOf(problem)),
    );
    return () => {
      left = true;
      finish?.();
    };
  }, [specification, colorScheme]);
  return (
    <>
      {/* Vega takes the attributes of its own element away. */}
      <div role="img" aria-label={`Plot ${name}`}>
        <div ref={host} className={classes.plot} />
      </div>
      {error !== null && <p className="soft">This plot cannot be drawn: {error}</p>}
    </>
  );
}

function tooltipText(value: unknown): string {
  if (typeof value !== "object" || value === null) return String(value);
  return Object.entries(value)
    .map(([field, each]) => `${field}: ${String(each)}`)
    .join("\n");
}
