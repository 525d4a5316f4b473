/** Sizes of what is drawn, in pixels at 100 %. */
import type { TopologyNode } from "./topology";

export type Direction = "right" | "down";

export const NODE_WIDTH = 212;
export const NODE_HEIGHT = 64;
/** distance of neighbouring ports on one side */
export const PORT_STEP = 18;
/** free space between neighbours of one layer, and between layers */
export const GAP_ACROSS = 28;
export const GAP_ALONG = 84;

export interface Point {
  x: number;
  y: number;
}

export interface Size {
  width: number;
  height: number;
}

export interface Placed {
  /** top left corner of each node */
  nodes: Record<string, Point>;
  /** way-points of each edge, from port to port */
  edges: Record<string, Point[]>;
  width: number;
  height: number;
}

/** A node grows with its ports, so that no two of them touch. */
export function nodeSize(node: TopologyNode, direction: Direction): Size {
  const ports = Math.max(node.inputs.length, node.outputs.length);
  const needed = (ports + 1) * PORT_STEP;
  return direction === "right"
    ? { width: NODE_WIDTH, height: Math.max(NODE_HEIGHT, needed) }
    : { width: Math.max(NODE_WIDTH, needed), height: NODE_HEIGHT };
}

/** Where a port is on its side, from the side's beginning. */
export function portOffset(index: number, count: number, length: number): number {
  return (length * (index + 1)) / (count + 1);
}
