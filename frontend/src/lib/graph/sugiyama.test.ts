import { expect, test } from "vitest";
import { nodeSize } from "./geometry";
import { layered } from "./sugiyama";
import { topologyOf, topologyKey, reachable, type Topology } from "./topology";

function graph(pairs: [string, string][], more: string[] = []): Topology {
  const names = [...new Set([...pairs.flat(), ...more])];
  return {
    channelColors: {},
    nodes: names.map((name) => ({
      name,
      kind: "block",
      channel: null,
      inputs: pairs.filter(([, to]) => to === name).map(([from]) => `from-${from}`),
      outputs: ["out"],
    })),
    edges: pairs.map(([from, to]) => ({
      id: `${from}→${to}`,
      from,
      fromPort: "out",
      to,
      toPort: `from-${from}`,
      channel: "c",
    })),
  };
}

function overlaps(topology: Topology, direction: "right" | "down"): string[] {
  const placed = layered(topology, direction);
  const boxes = topology.nodes.map((node) => ({
    name: node.name,
    ...(placed.nodes[node.name] ?? { x: NaN, y: NaN }),
    ...nodeSize(node, direction),
  }));
  const found: string[] = [];
  boxes.forEach((a, index) => {
    for (const b of boxes.slice(index + 1)) {
      const apart =
        a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y;
      if (!apart) found.push(`${a.name} on ${b.name}`);
    }
  });
  return found;
}

/** Layers of random width with random edges to earlier ones; the same for the same seed. */
function random(count: number, seed: number): Topology {
  let state = seed;
  const chance = () => (state = (state * 48271) % 2147483647) / 2147483647;
  const pairs: [string, string][] = [];
  for (let index = 1; index < count; index++) {
    const wanted = 1 + Math.floor(chance() * 2.4);
    const sources = new Set<number>();
    for (let edge = 0; edge < wanted; edge++) {
      sources.add(Math.max(0, index - 1 - Math.floor(chance() * Math.min(index, 25))));
    }
    for (const from of sources) pairs.push([`n${from}`, `n${index}`]);
  }
  return graph(pairs);
}

test("a chain is a straight line", () => {
  const { nodes } = layered(graph([["a", "b"], ["b", "c"]]));
  expect(new Set(Object.values(nodes).map((point) => point.y)).size).toBe(1);
  expect(Object.values(nodes).map((point) => point.x)).toEqual(
    Object.values(nodes).map((point) => point.x).toSorted((a, b) => a - b),
  );
});

test("every edge goes forward, from port to port", () => {
  const topology = random(60, 3);
  const placed = layered(topology);
  for (const edge of topology.edges) {
    const points = placed.edges[edge.id] ?? [];
    expect(points.length).toBeGreaterThanOrEqual(2);
    expect(points.map((p) => p.x)).toEqual(points.map((p) => p.x).toSorted((a, b) => a - b));
    const from = placed.nodes[edge.from];
    expect(points[0]?.x).toBe((from?.x ?? 0) + 212);
    expect(points.at(-1)?.x).toBe(placed.nodes[edge.to]?.x);
  }
});

test.each([1, 2, 3, 4, 5])("no node lies on another, random graph %i", (seed) => {
  expect(overlaps(random(80, seed), "right")).toEqual([]);
  expect(overlaps(random(80, seed), "down")).toEqual([]);
});

test("two crossing edges are untangled", () => {
  const topology = graph([["a", "d"], ["b", "c"]], []);
  const { nodes } = layered(topology);
  const above = (x: string, y: string) => (nodes[x]?.y ?? 0) < (nodes[y]?.y ?? 0);
  expect(above("a", "b")).toBe(above("d", "c"));
});

test("the same graph is always drawn the same", () => {
  expect(layered(random(100, 7))).toEqual(layered(random(100, 7)));
});

test("a cycle, a lone node and an empty graph are drawn all the same", () => {
  expect(Object.keys(layered(graph([["a", "b"], ["b", "a"]], ["c"])).nodes)).toHaveLength(3);
  expect(layered(graph([]))).toEqual({ nodes: {}, edges: {}, width: 0, height: 0 });
});

test("everything lies inside the drawing, which begins at 0, 0", () => {
  const topology = random(120, 11);
  const { nodes, width, height } = layered(topology);
  const xs = Object.values(nodes).map((point) => point.x);
  const ys = Object.values(nodes).map((point) => point.y);
  expect(Math.min(...xs)).toBe(0);
  expect(Math.min(...ys)).toBeGreaterThanOrEqual(0);
  expect(Math.max(...xs) + 212).toBeLessThanOrEqual(width);
  expect(Math.max(...ys) + 64).toBeLessThanOrEqual(height);
});

test("a toolchain's declaration becomes nodes and edges; dangling connections are left out", () => {
  const topology = topologyOf({
    datasets: [{ name: "digits", outputs: ["image"] }],
    blocks: [{ name: "pca", inputs: ["image"], outputs: ["x"], synchronized_channel: "digits" }],
    connections: [
      { from: "digits.image", to: "pca.image", channel: "digits" },
      { from: "gone.x", to: "pca.image", channel: "digits" },
    ],
  });
  expect(topology.nodes.map((node) => [node.name, node.channel])).toEqual([
    ["digits", "digits"],
    ["pca", "digits"],
  ]);
  expect(topology.edges.map((edge) => edge.id)).toEqual(["digits.image→pca.image"]);
});

test("the key changes with the topology only", () => {
  const topology = graph([["a", "b"]]);
  expect(topologyKey(graph([["a", "b"]]))).toBe(topologyKey(topology));
  expect(topologyKey(graph([["a", "c"]]))).not.toBe(topologyKey(topology));
  expect(topologyKey({ ...topology, channelColors: { c: "#fff" } })).toBe(topologyKey(topology));
});

test("what a node depends on and what depends on it", () => {
  const topology = graph([["a", "b"], ["b", "c"], ["a", "d"], ["e", "c"]]);
  expect([...reachable(topology, "b")].toSorted()).toEqual(["a", "b", "c"]);
});
