/** A connection: way-points from the layout, the colour of its channel. */
import { BaseEdge, type Edge, type EdgeProps } from "@xyflow/react";
import { memo } from "react";
import type { Point } from "@/lib/graph/geometry";
import { useRunView } from "./run-context";

export type ChannelEdgeType = Edge<
  { points: Point[]; color: string; title: string; pointer: boolean },
  "channel"
>;

/** Through all points, leaving and entering each one along the direction of the flow. */
export function smooth(points: readonly Point[], right: boolean): string {
  const [first, ...rest] = points;
  if (first === undefined) return "";
  let from = first;
  let line = `M${first.x},${first.y}`;
  for (const to of rest) {
    const half = (right ? to.x - from.x : to.y - from.y) / 2;
    line += right
      ? `C${from.x + half},${from.y} ${to.x - half},${to.y} ${to.x},${to.y}`
      : `C${from.x},${from.y + half} ${to.x},${to.y - half} ${to.x},${to.y}`;
    from = to;
  }
  return line;
}

function ChannelEdgeLine({ source, target, data }: EdgeProps<ChannelEdgeType>) {
  const { related, selected, direction } = useRunView();
  if (data === undefined) return null;
  const near = source === selected || target === selected;
  const off = related !== null && !(related.has(source) && related.has(target));
  return (
    <>
      <BaseEdge
        path={smooth(data.points, direction === "right")}
        interactionWidth={data.pointer ? 12 : 0}
        style={{
          stroke: data.color,
          strokeWidth: near ? 2.5 : 1.6,
          opacity: off ? 0.12 : near ? 1 : 0.75,
        }}
      />
      <title>{data.title}</title>
    </>
  );
}

export const ChannelEdge = memo(ChannelEdgeLine);
