/** One block of the drawing. Its place is given; only its state changes. */
import type { Node, NodeProps } from "@xyflow/react";
import { IconChartBar, IconDatabase } from "@tabler/icons-react";
import { memo } from "react";
import { StateIcon } from "@/components/ui/state-icon";
import { Elapsed } from "@/components/ui/times";
import { percent } from "@/lib/format/numbers";
import { portOffset } from "@/lib/graph/geometry";
import type { TopologyNode } from "@/lib/graph/topology";
import type { LiveBlock } from "@/lib/live/run-store";
import { useBlock, useRunView } from "./run-context";
import classes from "./block-node.module.css";

export type BlockNodeType = Node<{ node: TopologyNode }, "block">;

function BlockNodeBody({ data, width = 0, height = 0 }: NodeProps<BlockNodeType>) {
  const { node } = data;
  const block = useBlock(node.name);
  const { chosen, related, selected, select, direction } = useRunView();
  const state = block?.state ?? "blocked";
  const off =
    (chosen.size > 0 && !chosen.has(state)) || (related !== null && !related.has(node.name));
  const side = direction === "right" ? height : width;
  return (
    <div
      className={classes.node}
      data-state={state}
      data-off={off || undefined}
      data-selected={selected === node.name || undefined}
      data-kind={node.kind}
      style={{ width, height }}
    >
      <button
        type="button"
        className={`nopan ${classes.face ?? ""}`}
        data-block={node.name}
        aria-label={label(node, block)}
        aria-pressed={selected === node.name}
        onClick={() => select(selected === node.name ? undefined : node.name)}
      >
        <span className={classes.icon}>
          <StateIcon state={state} size={16} />
        </span>
        <span className={classes.words}>
          <span className={classes.name} title={node.name}>
            {node.name}
          </span>
          <span className={classes.state}>
            <Line block={block} />
          </span>
        </span>
        {node.kind === "dataset" && <IconDatabase size={15} className={classes.kind} aria-hidden />}
        {node.kind === "analyzer" && <IconChartBar size={15} className={classes.kind} aria-hidden />}
      </button>
      {block?.state === "running" && block.progress !== null && (
        <span className={classes.progress} style={{ width: percent(block.progress).replace(" ", "") }} />
      )}
      <Ports names={node.inputs} end="in" side={side} />
      <Ports names={node.outputs} end="out" side={side} />
    </div>
  );
}

export const BlockNode = memo(BlockNodeBody);

function label(node: TopologyNode, block: LiveBlock | undefined): string {
  const progress = block?.state === "running" && block.progress !== null ? `, ${percent(block.progress)}` : "";
  return `${node.name}, ${node.kind}, ${block?.state ?? "not loaded"}${progress}`;
}

function Line({ block }: { block: LiveBlock | undefined }) {
  if (block === undefined) return <>…</>;
  const attempt = (block.attempt ?? 1) > 1 ? ` · attempt ${block.attempt ?? 1}` : "";
  switch (block.state) {
    case "running":
      return (
        <>
          running{block.progress !== null && ` ${percent(block.progress)}`} ·{" "}
          <Elapsed start={block.started_at} end={null} />
          {attempt}
        </>
      );
    case "done":
    case "failed":
      return (
        <>
          {block.state} · <Elapsed start={block.started_at} end={block.finished_at} />
        </>
      );
    case "queued":
      return (
        <>
          queued on {block.queue}
          {attempt}
        </>
      );
    case "cached":
      return <>from the cache</>;
    default:
      return <>{block.state}</>;
  }
}

interface PortsProps {
  names: string[];
  end: "in" | "out";
  side: number;
}

/** Dots only: the drawing library knows the places from the layout. */
function Ports({ names, end, side }: PortsProps) {
  const { direction } = useRunView();
  return names.map((name, index) => {
    const at = portOffset(index, names.length, side);
    return (
      <span
        key={name}
        className={classes.port}
        data-end={end}
        data-direction={direction}
        style={direction === "right" ? { top: at } : { left: at }}
        title={name}
      />
    );
  });
}
