/** Which algorithms fit a block of a toolchain, and how their ports join. Pure. */
import type { Topology, TopologyNode } from "@/lib/graph/topology";
import type { AlgorithmDeclaration } from "@/lib/api/types";

export interface Algorithm {
  ref: string;
  owner: string;
  name: string;
  version: number;
  declaration: AlgorithmDeclaration;
}

/** algorithm's port -> block's port */
export type PortMap = Record<string, string>;

export interface Candidate {
  algorithm: Algorithm;
  /** formats of its inputs equal what arrives, as far as that is known */
  typesFit: boolean;
}

export function inputsOf(declaration: AlgorithmDeclaration): Record<string, string> {
  return portTypes(declaration.groups.map((group) => group.inputs ?? {}));
}

export function outputsOf(declaration: AlgorithmDeclaration): Record<string, string> {
  return portTypes(declaration.groups.map((group) => group.outputs ?? {}));
}

function portTypes(groups: Record<string, { type: string }>[]): Record<string, string> {
  return Object.fromEntries(
    groups.flatMap((ports) => Object.entries(ports).map(([name, port]) => [name, port.type])),
  );
}

/** Equal names join; what is left joins in order. */
export function joinPorts(algorithmPorts: string[], blockPorts: string[]): PortMap {
  const map: PortMap = {};
  const free = blockPorts.filter((port) => !algorithmPorts.includes(port));
  for (const port of algorithmPorts) {
    const joined = blockPorts.includes(port) ? port : free.shift();
    if (joined !== undefined) map[port] = joined;
  }
  return map;
}

/**
 * Algorithms with as many ports as the block, best first: the formats that arrive are right, the
 * ports have the same names, the name is the block's, the newest version.
 */
export function candidatesFor(
  node: TopologyNode,
  algorithms: readonly Algorithm[],
  arriving: Readonly<Record<string, string | undefined>>,
): Candidate[] {
  const fitting = algorithms.filter(({ declaration }) => hasPortsOf(node, declaration));
  const rated = fitting.map((algorithm) => {
    const inputs = inputsOf(algorithm.declaration);
    const typesFit = typesAgree(inputs, node, arriving);
    const names = [...Object.keys(inputs), ...Object.keys(outputsOf(algorithm.declaration))];
    const known = new Set([...node.inputs, ...node.outputs]);
    const sameNames = names.filter((name) => known.has(name)).length / Math.max(1, names.length);
    const score = (typesFit ? 100 : 0) + 10 * sameNames + likeness(node.name, algorithm.name);
    return { algorithm, typesFit, score };
  });
  return rated
    .sort(
      (a, b) =>
        b.score - a.score ||
        a.algorithm.ref.localeCompare(b.algorithm.ref) ||
        b.algorithm.version - a.algorithm.version,
    )
    .map(({ algorithm, typesFit }) => ({ algorithm, typesFit }));
}

function hasPortsOf(node: TopologyNode, declaration: AlgorithmDeclaration): boolean {
  if (!Array.isArray(declaration.groups)) return false;
  const isAnalyzer = declaration.results !== undefined;
  return (
    isAnalyzer === (node.kind === "analyzer") &&
    Object.keys(inputsOf(declaration)).length === node.inputs.length &&
    Object.keys(outputsOf(declaration)).length === node.outputs.length
  );
}

function typesAgree(
  inputs: Record<string, string>,
  node: TopologyNode,
  arriving: Readonly<Record<string, string | undefined>>,
): boolean {
  const joined = joinPorts(Object.keys(inputs), node.inputs);
  return Object.entries(inputs).every(([port, type]) => {
    const there = arriving[joined[port] ?? ""];
    return there === undefined || there === type;
  });
}

function likeness(block: string, algorithm: string): number {
  if (block === algorithm) return 5;
  return block.includes(algorithm) || algorithm.includes(block) ? 2 : 0;
}

/** Format of what arrives at each input of a node, given the formats of all outputs. */
export function arrivingAt(
  topology: Topology,
  node: string,
  produced: ReadonlyMap<string, string>,
): Record<string, string | undefined> {
  return Object.fromEntries(
    topology.edges
      .filter((edge) => edge.to === node)
      .map((edge) => [edge.toPort, produced.get(`${edge.from}.${edge.fromPort}`)]),
  );
}

/** Nodes with what they read before them; what lies on a cycle comes last. */
export function inOrder(topology: Topology): TopologyNode[] {
  const done = new Set<string>();
  let left = topology.nodes;
  const ordered: TopologyNode[] = [];
  for (;;) {
    const ready = left.filter((node) =>
      topology.edges.every((edge) => edge.to !== node.name || done.has(edge.from)),
    );
    if (ready.length === 0) return [...ordered, ...left];
    ordered.push(...ready);
    for (const node of ready) done.add(node.name);
    left = left.filter((node) => !done.has(node.name));
  }
}
