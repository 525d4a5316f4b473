/**
 * A layered drawing of a directed graph with ports (Sugiyama, Tagawa, Toda 1981): layers by
 * longest path, long edges cut by bends, few crossings by barycentres, places by least squares.
 * Pure and deterministic; 1,000 nodes take some tens of milliseconds.
 */
import {
  GAP_ACROSS,
  GAP_ALONG,
  nodeSize,
  portOffset,
  type Direction,
  type Placed,
  type Point,
} from "./geometry";
import type { Topology } from "./topology";

const SWEEPS = 24;
const PLACE_SWEEPS = 12;
/** a bend wants to stay on its line more than a node does */
const BEND_WEIGHT = 8;

/** A node, or a bend of an edge that passes a layer. Across: along the layer; along: over layers. */
interface Item {
  name: string | null;
  layer: number;
  size: number;
  depth: number;
  across: number;
  before: Link[];
  after: Link[];
}

/** A piece of an edge between neighbouring layers; offsets from the items' beginnings. */
interface Link {
  from: Item;
  fromAt: number;
  to: Item;
  toAt: number;
}

interface Chain {
  id: string;
  links: Link[];
}

export function layered(topology: Topology, direction: Direction = "right"): Placed {
  const items = itemsOf(topology, direction);
  assignLayers(topology, items);
  const { chains, layers } = cutLongEdges(topology, items, direction);
  orderLayers(layers);
  placeAcross(layers);
  return drawing(layers, chains, direction);
}

function itemsOf(topology: Topology, direction: Direction): Map<string, Item> {
  const items = new Map<string, Item>();
  for (const node of topology.nodes) {
    const { width, height } = nodeSize(node, direction);
    const [size, depth] = direction === "right" ? [height, width] : [width, height];
    items.set(node.name, {
      name: node.name,
      layer: 0,
      size,
      depth,
      across: 0,
      before: [],
      after: [],
    });
  }
  return items;
}

/** Longest path from the sources, then sources moved next to what reads them first. */
function assignLayers(topology: Topology, items: Map<string, Item>): void {
  const after = neighbours(topology, "from", "to");
  const missing = new Map<string, number>();
  for (const edge of topology.edges) missing.set(edge.to, (missing.get(edge.to) ?? 0) + 1);
  const ready = topology.nodes.map((node) => node.name).filter((name) => !missing.has(name));
  for (let next = 0; next < ready.length; next++) {
    const name = ready[next] ?? "";
    const layer = items.get(name)?.layer ?? 0;
    for (const other of after.get(name) ?? []) {
      const item = items.get(other);
      if (item !== undefined) item.layer = Math.max(item.layer, layer + 1);
      const left = (missing.get(other) ?? 0) - 1;
      missing.set(other, left);
      if (left === 0) ready.push(other);
    }
  }
  pullSources(topology, items, after);
}

function pullSources(
  topology: Topology,
  items: Map<string, Item>,
  after: Map<string, string[]>,
): void {
  const fed = new Set(topology.edges.map((edge) => edge.to));
  for (const { name } of topology.nodes) {
    const readers = after.get(name) ?? [];
    const item = items.get(name);
    if (item === undefined || fed.has(name) || readers.length === 0) continue;
    item.layer = Math.max(0, Math.min(...readers.map((other) => items.get(other)?.layer ?? 1)) - 1);
  }
}

function neighbours(topology: Topology, here: "from" | "to", there: "from" | "to") {
  const map = new Map<string, string[]>();
  for (const edge of topology.edges) {
    const list = map.get(edge[here]);
    if (list === undefined) map.set(edge[here], [edge[there]]);
    else list.push(edge[there]);
  }
  return map;
}

function cutLongEdges(topology: Topology, items: Map<string, Item>, direction: Direction) {
  const layers: Item[][] = [];
  const put = (item: Item) => (layers[item.layer] ??= []).push(item);
  for (const item of items.values()) put(item);
  const ports = portPlaces(topology, direction);
  const chains: Chain[] = [];
  for (const edge of topology.edges) {
    const from = items.get(edge.from);
    const to = items.get(edge.to);
    if (from === undefined || to === undefined || to.layer <= from.layer) continue;
    const links: Link[] = [];
    let here = from;
    let at = ports.get(`${edge.from} out ${edge.fromPort}`) ?? from.size / 2;
    for (let layer = from.layer + 1; layer < to.layer; layer++) {
      const bend: Item = { ...from, name: null, layer, size: 0, depth: 0, before: [], after: [] };
      put(bend);
      links.push(link(here, at, bend, 0));
      here = bend;
      at = 0;
    }
    links.push(link(here, at, to, ports.get(`${edge.to} in ${edge.toPort}`) ?? to.size / 2));
    chains.push({ id: edge.id, links });
  }
  for (let layer = 0; layer < layers.length; layer++) layers[layer] ??= [];
  return { chains, layers };
}

function portPlaces(topology: Topology, direction: Direction): Map<string, number> {
  const places = new Map<string, number>();
  for (const node of topology.nodes) {
    const { width, height } = nodeSize(node, direction);
    const side = direction === "right" ? height : width;
    for (const [word, ports] of [
      ["in", node.inputs],
      ["out", node.outputs],
    ] as const) {
      ports.forEach((port, index) =>
        places.set(`${node.name} ${word} ${port}`, portOffset(index, ports.length, side)),
      );
    }
  }
  return places;
}

function link(from: Item, fromAt: number, to: Item, toAt: number): Link {
  const made = { from, fromAt, to, toAt };
  from.after.push(made);
  to.before.push(made);
  return made;
}

/** Sweeps down and up with barycentres; the order with the fewest crossings is kept. */
function orderLayers(layers: Item[][]): void {
  const rank = new Map<Item, number>();
  const number = () => {
    for (const layer of layers) layer.forEach((item, index) => rank.set(item, index));
  };
  number();
  let best = layers.map((layer) => [...layer]);
  let fewest = crossings(layers, rank);
  for (let sweep = 0, idle = 0; sweep < SWEEPS && fewest > 0 && idle < 6; sweep++, idle++) {
    const down = sweep % 2 === 0;
    for (const layer of down ? layers : [...layers].reverse()) {
      sortByBarycentre(layer, rank, down ? "before" : "after");
    }
    number();
    const now = crossings(layers, rank);
    if (now >= fewest) continue;
    fewest = now;
    best = layers.map((layer) => [...layer]);
    idle = 0;
  }
  best.forEach((order, index) => layers[index]?.splice(0, order.length, ...order));
}

function sortByBarycentre(layer: Item[], rank: Map<Item, number>, side: "before" | "after"): void {
  const weight = new Map<Item, number>();
  for (const item of layer) {
    const links = item[side];
    let sum = 0;
    for (const each of links) {
      const [other, at] = side === "before" ? [each.from, each.fromAt] : [each.to, each.toAt];
      sum += (rank.get(other) ?? 0) + (other.size > 0 ? at / other.size : 0.5);
    }
    weight.set(item, links.length > 0 ? sum / links.length : (rank.get(item) ?? 0) + 0.5);
  }
  layer.sort((a, b) => (weight.get(a) ?? 0) - (weight.get(b) ?? 0));
  layer.forEach((item, index) => rank.set(item, index));
}

/** Crossings between neighbouring layers, counted with a Fenwick tree (Barth, Jünger, Mutzel). */
function crossings(layers: Item[][], rank: Map<Item, number>): number {
  let count = 0;
  for (const layer of layers) {
    const ends: number[] = [];
    for (const item of layer) {
      const links = [...item.after].sort((a, b) => a.fromAt - b.fromAt);
      for (const each of links) {
        const inside = each.to.size > 0 ? each.toAt / (each.to.size + 1) : 0.5;
        ends.push((rank.get(each.to) ?? 0) + inside);
      }
    }
    count += inversions(ends);
  }
  return count;
}

function inversions(values: number[]): number {
  const order = [...new Set(values)].sort((a, b) => a - b);
  const place = new Map(order.map((value, index) => [value, index + 1]));
  const tree = new Array<number>(order.length + 1).fill(0);
  let count = 0;
  values.forEach((value, seen) => {
    const at = place.get(value) ?? 0;
    let notAbove = 0;
    for (let index = at; index > 0; index -= index & -index) notAbove += tree[index] ?? 0;
    count += seen - notAbove;
    for (let index = at; index < tree.length; index += index & -index) {
      tree[index] = (tree[index] ?? 0) + 1;
    }
  });
  return count;
}

/** Each layer is put as near to its neighbours' lines as its order and gaps allow. */
function placeAcross(layers: Item[][]): void {
  for (const layer of layers) {
    let across = 0;
    for (const item of layer) {
      item.across = across;
      across += item.size + GAP_ACROSS;
    }
  }
  for (let sweep = 0; sweep < PLACE_SWEEPS; sweep++) {
    const down = sweep % 2 === 0;
    for (const layer of down ? layers : [...layers].reverse()) {
      settle(layer, down ? ["before"] : ["after"]);
    }
  }
  for (const layer of layers) settle(layer, ["before", "after"]);
}

function settle(layer: Item[], sides: ("before" | "after")[]): void {
  const wishes = layer.map((item) => wish(item, sides));
  const offsets: number[] = [];
  let offset = 0;
  for (const item of layer) {
    offsets.push(offset);
    offset += item.size + GAP_ACROSS;
  }
  const fitted = isotonic(
    wishes.map((each, index) => ({
      value: each.value - (offsets[index] ?? 0),
      weight: each.weight,
    })),
  );
  layer.forEach((item, index) => {
    item.across = (fitted[index] ?? 0) + (offsets[index] ?? 0);
  });
}

/** Where the item's links would be straight, and how much that counts. */
function wish(item: Item, sides: ("before" | "after")[]): { value: number; weight: number } {
  let sum = 0;
  let weight = 0;
  for (const side of sides) {
    for (const each of item[side]) {
      const bends = (each.from.name === null ? 1 : 0) + (each.to.name === null ? 1 : 0);
      const pull = bends === 2 ? BEND_WEIGHT : 1 + bends;
      const there =
        side === "before"
          ? each.from.across + each.fromAt - each.toAt
          : each.to.across + each.toAt - each.fromAt;
      sum += pull * there;
      weight += pull;
    }
  }
  return weight > 0 ? { value: sum / weight, weight } : { value: item.across, weight: 0.01 };
}

/** Least-squares fit of a non-decreasing sequence: pool adjacent violators. */
function isotonic(wishes: { value: number; weight: number }[]): number[] {
  const pools: { value: number; weight: number; count: number }[] = [];
  for (const { value, weight } of wishes) {
    let pool = { value, weight, count: 1 };
    for (let last = pools.at(-1); last !== undefined && last.value > pool.value; last = pools.at(-1)) {
      pools.pop();
      const sum = last.weight + pool.weight;
      pool = {
        value: (last.value * last.weight + pool.value * pool.weight) / sum,
        weight: sum,
        count: last.count + pool.count,
      };
    }
    pools.push(pool);
  }
  return pools.flatMap(({ value, count }) => new Array<number>(count).fill(value));
}

function drawing(layers: Item[][], chains: Chain[], direction: Direction): Placed {
  const turn = (along: number, across: number): Point =>
    direction === "right" ? { x: along, y: across } : { x: across, y: along };
  const starts = layerStarts(layers);
  const first = Math.min(0, ...layers.flat().map((item) => item.across));
  const lowest = layers.flat().length > 0 ? Math.min(...layers.flat().map((i) => i.across)) : first;
  const nodes: Record<string, Point> = {};
  let [width, height] = [0, 0];
  for (const item of layers.flat()) {
    const at = turn(starts[item.layer] ?? 0, item.across - lowest);
    const end = turn((starts[item.layer] ?? 0) + item.depth, item.across - lowest + item.size);
    if (item.name !== null) nodes[item.name] = at;
    width = Math.max(width, end.x);
    height = Math.max(height, end.y);
  }
  const edges: Record<string, Point[]> = {};
  for (const { id, links } of chains) edges[id] = route(links, starts, lowest, layers, turn);
  return { nodes, edges, width, height };
}

/** Layers stand further apart where many edges change height between them. */
function layerStarts(layers: Item[][]): number[] {
  const starts: number[] = [];
  let along = 0;
  for (const layer of layers) {
    starts.push(along);
    const depth = Math.max(0, ...layer.map((item) => item.depth));
    const links = layer.reduce((sum, item) => sum + item.after.length, 0);
    along += depth + GAP_ALONG + Math.min(120, links * 2);
  }
  return starts;
}

function route(
  links: Link[],
  starts: number[],
  lowest: number,
  layers: Item[][],
  turn: (along: number, across: number) => Point,
): Point[] {
  const points: Point[] = [];
  for (const { from, fromAt, to, toAt } of links) {
    const left = (starts[from.layer] ?? 0) + from.depth;
    if (from.name !== null) points.push(turn(left, from.across + fromAt - lowest));
    points.push(turn(starts[to.layer] ?? 0, to.across + toAt - lowest));
    if (to.name === null) {
      const depth = Math.max(0, ...(layers[to.layer] ?? []).map((item) => item.depth));
      // Past the whole layer on one line, so that no node is crossed.
      points.push(turn((starts[to.layer] ?? 0) + depth, to.across - lowest));
    }
  }
  return points;
}
