/** Nodes and edges for the drawing library, made once per layout. */
import { nodeSize, portOffset, type Direction, type Placed } from "@/lib/graph/geometry";
import type { Topology, TopologyNode } from "@/lib/graph/topology";
import { Position, type NodeHandle } from "@xyflow/react";
import type { BlockNodeType } from "./block-node";
import type { ChannelEdgeType } from "./channel-edge";

/** Told apart by most people's eyes on light and dark ground. */
const CHANNEL_COLORS = ["#7a8ca3", "#b07d3c", "#5f9a80", "#a4708f", "#7f78b8", "#a7695c"];
const HEX = /^#[0-9a-f]{3}([0-9a-f]{3})?$/i;

export function channelColors(topology: Topology): Map<string, string> {
  const channels = [...new Set(topology.edges.map((edge) => edge.channel))];
  return new Map(
    channels.map((channel, index) => {
      const given = topology.channelColors[channel];
      const own = CHANNEL_COLORS[index % CHANNEL_COLORS.length] ?? "#7a8ca3";
      return [channel, given !== undefined && HEX.test(given) ? given : own];
    }),
  );
}

function handlesOf(node: TopologyNode, direction: Direction): NodeHandle[] {
  const { width, height } = nodeSize(node, direction);
  const right = direction === "right";
  const handle = (type: "source" | "target", id: string, index: number, count: number) => {
    const along = type === "source" ? (right ? width : height) : 0;
    const across = portOffset(index, count, right ? height : width);
    const before = right ? Position.Left : Position.Top;
    const after = right ? Position.Right : Position.Bottom;
    return {
      id,
      type,
      position: type === "source" ? after : before,
      ...(right ? { x: along, y: across } : { x: across, y: along }),
      width: 1,
      height: 1,
    };
  };
  return [
    ...node.inputs.map((id, index) => handle("target", id, index, node.inputs.length)),
    ...node.outputs.map((id, index) => handle("source", id, index, node.outputs.length)),
  ];
}

/** With so many, the wider invisible lines for the pointer would double what is drawn. */
const MANY_EDGES = 150;

export function flowElements(topology: Topology, placed: Placed, direction: Direction) {
  const nodes: BlockNodeType[] = topology.nodes.map((node) => ({
    id: node.name,
    type: "block",
    position: placed.nodes[node.name] ?? { x: 0, y: 0 },
    ...nodeSize(node, direction),
    // Known beforehand: nothing has to be measured before the edges can be drawn.
    measured: nodeSize(node, direction),
    handles: handlesOf(node, direction),
    data: { node },
  }));
  const colors = channelColors(topology);
  const edges: ChannelEdgeType[] = topology.edges
    .filter((edge) => placed.edges[edge.id] !== undefined)
    .map((edge) => ({
      id: edge.id,
      type: "channel",
      source: edge.from,
      sourceHandle: edge.fromPort,
      target: edge.to,
      targetHandle: edge.toPort,
      data: {
        points: placed.edges[edge.id] ?? [],
        pointer: topology.edges.length <= MANY_EDGES,
        color: colors.get(edge.channel) ?? "",
        title: `${edge.from}.${edge.fromPort} to ${edge.to}.${edge.toPort}, channel ${edge.channel}`,
      },
    }));
  return { nodes, edges };
}
