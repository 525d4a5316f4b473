/** Positions, worked out in a worker once per topology and kept; never for a state change. */
import type { Direction, Placed } from "./geometry";
import { topologyKey, type Topology } from "./topology";

export interface LayoutRequest {
  id: number;
  topology: Topology;
  direction: Direction;
}

export type LayoutAnswer = { id: number; placed: Placed } | { id: number; error: string };

const KEPT = 40;
const kept = new Map<string, Promise<Placed>>();

/** Keeps what `make` gives under the topology's key; a failure is not kept. */
function remember(key: string, make: () => Promise<Placed>): Promise<Placed> {
  const known = kept.get(key);
  if (known !== undefined) return known;
  const placed = make();
  kept.set(key, placed);
  placed.catch(() => kept.delete(key));
  const oldest = kept.keys().next().value;
  if (kept.size > KEPT && oldest !== undefined) kept.delete(oldest);
  return placed;
}

export function layout(topology: Topology, direction: Direction): Promise<Placed> {
  return remember(`own ${direction} ${topologyKey(topology)}`, () => ask(topology, direction));
}

/** The slower layout of the Eclipse Layout Kernel, loaded when first asked for. */
export function refinedLayout(topology: Topology, direction: Direction): Promise<Placed> {
  return remember(`elk ${direction} ${topologyKey(topology)}`, async () => {
    const { elkLayout } = await import("./elk");
    return elkLayout(topology, direction);
  });
}

let worker: Worker | null = null;
let lastId = 0;
const waiting = new Map<number, { done: (placed: Placed) => void; failed: (error: Error) => void }>();

function ask(topology: Topology, direction: Direction): Promise<Placed> {
  worker ??= start();
  const id = ++lastId;
  const request: LayoutRequest = { id, topology, direction };
  return new Promise((done, failed) => {
    waiting.set(id, { done, failed });
    worker?.postMessage(request);
  });
}

function start(): Worker {
  const started = new Worker(new URL("./layout-worker.ts", import.meta.url), { type: "module" });
  started.onmessage = ({ data }: MessageEvent<LayoutAnswer>) => {
    const asked = waiting.get(data.id);
    waiting.delete(data.id);
    if ("placed" in data) asked?.done(data.placed);
    else asked?.failed(new Error(data.error));
  };
  started.onerror = () => {
    for (const { failed } of waiting.values()) failed(new Error("The layout could not be worked out."));
    waiting.clear();
    worker = null;
  };
  return started;
}
