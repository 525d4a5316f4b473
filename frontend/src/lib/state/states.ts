/** The states of blocks and experiments: their words, their order, what they mean. */

export const BLOCK_STATES = [
  "blocked",
  "queued",
  "assigned",
  "running",
  "lost",
  "cancelling",
  "done",
  "cached",
  "failed",
  "cancelled",
  "skipped",
] as const;
export type BlockState = (typeof BLOCK_STATES)[number];

export const EXPERIMENT_STATES = [
  "draft",
  "pending",
  "running",
  "cancelling",
  "done",
  "failed",
  "cancelled",
  "deleting",
] as const;
export type ExperimentState = (typeof EXPERIMENT_STATES)[number];

export type AnyState = BlockState | ExperimentState;

export const FINAL_BLOCK_STATES: ReadonlySet<string> = new Set<BlockState>([
  "done",
  "cached",
  "failed",
  "cancelled",
  "skipped",
]);
export const FINAL_EXPERIMENT_STATES: ReadonlySet<string> = new Set<ExperimentState>([
  "done",
  "failed",
  "cancelled",
]);

/** One sentence for each state, for tooltips and the legend. */
export const STATE_MEANING: Record<AnyState, string> = {
  blocked: "Waits for the blocks it reads from",
  queued: "Ready; waits for a slot",
  assigned: "Given to a worker, not started yet",
  running: "Running on a worker",
  lost: "Its worker went silent; it will be queued again",
  cancelling: "Being stopped; waits for the worker's word",
  done: "Ran and finished",
  cached: "Finished earlier: taken from the cache",
  failed: "Ended with an error",
  cancelled: "Stopped by somebody",
  skipped: "Not run: something it reads from failed",
  draft: "Not started",
  pending: "Submitted; nothing of it runs yet",
  deleting: "Being deleted",
};

/** The order in which a bar or legend shows the states: from finished to not begun. */
export const BAR_ORDER: readonly BlockState[] = [
  "done",
  "cached",
  "running",
  "assigned",
  "queued",
  "blocked",
  "lost",
  "cancelling",
  "failed",
  "cancelled",
  "skipped",
];

export function isBlockState(text: string): text is BlockState {
  return (BLOCK_STATES as readonly string[]).includes(text);
}

export type Counts = Partial<Record<BlockState, number>>;

export function countStates(states: Iterable<BlockState>): Counts {
  const counts: Counts = {};
  for (const state of states) counts[state] = (counts[state] ?? 0) + 1;
  return counts;
}
