/** What is drawn and how it hangs together: nothing here depends on a state. */

export type NodeKind = "dataset" | "block" | "analyzer";

export interface TopologyNode {
  name: string;
  kind: NodeKind;
  inputs: string[];
  outputs: string[];
  /** the dataset that this node iterates over */
  channel: string | null;
}

export interface TopologyEdge {
  id: string;
  from: string;
  fromPort: string;
  to: string;
  toPort: string;
  channel: string;
}

export interface Topology {
  nodes: TopologyNode[];
  edges: TopologyEdge[];
  /** colours that the toolchain's author gave to channels, if any */
  channelColors: Record<string, string>;
}

interface DeclaredItem {
  name: string;
  inputs?: string[];
  outputs?: string[];
  synchronized_channel?: string;
}

/** BEAT's toolchain form, as far as it is drawn. */
export interface ToolchainDeclaration {
  datasets?: DeclaredItem[];
  blocks?: DeclaredItem[];
  analyzers?: DeclaredItem[];
  connections?: { from: string; to: string; channel: string }[];
  representation?: { channel_colors?: Record<string, string> };
}

export function topologyOf(toolchain: ToolchainDeclaration): Topology {
  const nodes = [
    ...(toolchain.datasets ?? []).map((item) => node(item, "dataset")),
    ...(toolchain.blocks ?? []).map((item) => node(item, "block")),
    ...(toolchain.analyzers ?? []).map((item) => node(item, "analyzer")),
  ];
  const known = new Set(nodes.map((item) => item.name));
  const edges = (toolchain.connections ?? [])
    .map(edge)
    .filter((item) => known.has(item.from) && known.has(item.to));
  return { nodes, edges, channelColors: toolchain.representation?.channel_colors ?? {} };
}

function node(item: DeclaredItem, kind: NodeKind): TopologyNode {
  return {
    name: item.name,
    kind,
    inputs: item.inputs ?? [],
    outputs: item.outputs ?? [],
    channel: kind === "dataset" ? item.name : (item.synchronized_channel ?? null),
  };
}

function edge(connection: { from: string; to: string; channel: string }): TopologyEdge {
  const [from, fromPort] = split(connection.from);
  const [to, toPort] = split(connection.to);
  return {
    id: `${connection.from}→${connection.to}`,
    from,
    fromPort,
    to,
    toPort,
    channel: connection.channel,
  };
}

function split(endpoint: string): [string, string] {
  const dot = endpoint.lastIndexOf(".");
  return [endpoint.slice(0, dot), endpoint.slice(dot + 1)];
}

/** Everything before or after a node, with the node itself. */
export function reachable(topology: Topology, start: string): Set<string> {
  const found = new Set([start]);
  for (const [here, there] of [
    ["from", "to"],
    ["to", "from"],
  ] as const) {
    const next = new Map<string, string[]>();
    for (const item of topology.edges) {
      next.set(item[here], [...(next.get(item[here]) ?? []), item[there]]);
    }
    const waiting = [start];
    const seen = new Set(waiting);
    for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
      found.add(name);
      for (const other of next.get(name) ?? []) {
        if (!seen.has(other)) {
          seen.add(other);
          waiting.push(other);
        }
      }
    }
  }
  return found;
}

/** A key for the cache of positions: equal exactly when the drawing would be. */
export function topologyKey(topology: Topology): string {
  const text = JSON.stringify([
    topology.nodes.map((item) => [item.name, item.kind, item.inputs, item.outputs]),
    topology.edges.map((item) => item.id),
  ]);
  return `${text.length.toString(36)}-${hash53(text, 1)}-${hash53(text, 2)}`;
}

/** cyrb53, a public-domain string hash: two of them make 106 bits, enough for a cache. */
function hash53(text: string, seed: number): string {
  let high = 0xdeadbeef ^ seed;
  let low = 0x41c6ce57 ^ seed;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    high = Math.imul(high ^ code, 2654435761);
    low = Math.imul(low ^ code, 1597334677);
  }
  high = Math.imul(high ^ (high >>> 16), 2246822507) ^ Math.imul(low ^ (low >>> 13), 3266489909);
  low = Math.imul(low ^ (low >>> 16), 2246822507) ^ Math.imul(high ^ (high >>> 13), 3266489909);
  return (4294967296 * (2097151 & low) + (high >>> 0)).toString(36);
}
