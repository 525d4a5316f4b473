/** Nodes and edges for the drawing library, made once per layout. */
import { nodeSize, type Direction, type Placed } from "@/lib/graph/geometry";
import type { Topology } from "@/lib/graph/topology";
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

export function flowElements(topology: Topology, placed: Placed, direction: Direction) {
  const nodes: BlockNodeType[] = topology.nodes.map((node) => ({
    id: node.name,
    type: "block",
    position: placed.nodes[node.name] ?? { x: 0, y: 0 },
    ...nodeSize(node, direction),
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
        color: colors.get(edge.channel) ?? "",
        title: `${edge.from}.${edge.fromPort} to ${edge.to}.${edge.toPort}, channel ${edge.channel}`,
      },
    }));
  return { nodes, edges };
}
