/** Arrow keys go to the block that lies nearest in that direction. */
import type { BlockNodeType } from "./block-node";

const STEPS: Record<string, [number, number]> = {
  ArrowRight: [1, 0],
  ArrowLeft: [-1, 0],
  ArrowDown: [0, 1],
  ArrowUp: [0, -1],
};

export function neighbourInDirection(
  nodes: readonly BlockNodeType[],
  from: string,
  key: string,
): string | undefined {
  const step = STEPS[key];
  const start = nodes.find((node) => node.id === from);
  if (step === undefined || start === undefined) return undefined;
  let best: string | undefined;
  let least = Infinity;
  for (const node of nodes) {
    const dx = node.position.x - start.position.x;
    const dy = node.position.y - start.position.y;
    const ahead = dx * step[0] + dy * step[1];
    const aside = Math.abs(dx * step[1]) + Math.abs(dy * step[0]);
    const cost = ahead + 2 * aside;
    if (ahead > 1 && cost < least) {
      least = cost;
      best = node.id;
    }
  }
  return best;
}
