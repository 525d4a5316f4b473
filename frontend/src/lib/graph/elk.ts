/** The Eclipse Layout Kernel in its own worker: slower than ours, with fewer bends. */
import ELK from "elkjs/lib/elk-api";
import type { ELK as Elk, ElkExtendedEdge, ElkNode } from "elkjs/lib/elk-api";
import workerUrl from "elkjs/lib/elk-worker.min.js?url";
import { nodeSize, portOffset, type Direction, type Placed, type Point } from "./geometry";
import type { Topology, TopologyNode } from "./topology";

const OPTIONS = {
  "elk.algorithm": "layered",
  "elk.edgeRouting": "POLYLINE",
  "elk.spacing.nodeNode": "28",
  "elk.layered.spacing.nodeNodeBetweenLayers": "84",
  "elk.layered.thoroughness": "7",
  "elk.layered.nodePlacement.strategy": "NETWORK_SIMPLEX",
};

let elk: Elk | null = null;

export async function elkLayout(topology: Topology, direction: Direction): Promise<Placed> {
  elk ??= new ELK({ workerFactory: () => new Worker(workerUrl) });
  const graph: ElkNode = await elk.layout({
    id: "root",
    layoutOptions: { ...OPTIONS, "elk.direction": direction === "right" ? "RIGHT" : "DOWN" },
    children: topology.nodes.map((node) => elkNode(node, direction)),
    edges: topology.edges.map((edge) => ({
      id: edge.id,
      sources: [`${edge.from} out ${edge.fromPort}`],
      targets: [`${edge.to} in ${edge.toPort}`],
    })),
  });
  return {
    nodes: Object.fromEntries(
      (graph.children ?? []).map((node) => [node.id, { x: node.x ?? 0, y: node.y ?? 0 }]),
    ),
    edges: Object.fromEntries((graph.edges ?? []).map((edge) => [edge.id, pointsOf(edge)])),
    width: graph.width ?? 0,
    height: graph.height ?? 0,
  };
}

function elkNode(node: TopologyNode, direction: Direction): ElkNode {
  const size = nodeSize(node, direction);
  const port = (word: "in" | "out", name: string, index: number, count: number) => {
    const end = word === "out";
    const at = portOffset(index, count, direction === "right" ? size.height : size.width);
    const across = direction === "right" ? size.width : size.height;
    const along = end ? across : 0;
    return {
      id: `${node.name} ${word} ${name}`,
      ...(direction === "right" ? { x: along, y: at } : { x: at, y: along }),
      width: 0,
      height: 0,
    };
  };
  return {
    id: node.name,
    ...size,
    layoutOptions: { "elk.portConstraints": "FIXED_POS" },
    ports: [
      ...node.inputs.map((name, index) => port("in", name, index, node.inputs.length)),
      ...node.outputs.map((name, index) => port("out", name, index, node.outputs.length)),
    ],
  };
}

function pointsOf(edge: ElkExtendedEdge): Point[] {
  const section = edge.sections?.[0];
  if (section === undefined) return [];
  return [section.startPoint, ...(section.bendPoints ?? []), section.endPoint];
}
