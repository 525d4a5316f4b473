/** What the page knows of one experiment's run: a snapshot, and every event since. */
import { createStore, type StoreApi } from "zustand/vanilla";
import type { BlockState, ExperimentState } from "@/lib/state/states";
import { FINAL_BLOCK_STATES, FINAL_EXPERIMENT_STATES } from "@/lib/state/states";
import type { LiveEvent } from "./protocol";

export interface LiveBlock {
  id: string;
  name: string;
  kind: "dataset" | "block" | "analyzer";
  state: BlockState;
  reason: string | null;
  failure: { kind: string; message: string; trace?: string | null } | null;
  progress: number | null;
  /** the last line that the block reported with its progress */
  message: string | null;
  worker: string | null;
  queue: string | null;
  environment: string | null;
  slots: number;
  algorithm: string;
  inputs: string[];
  attempt: number | null;
  queued_at: string | null;
  started_at: string | null;
  finished_at: string | null;
}

export interface RunSnapshot {
  seq: number;
  state: ExperimentState;
  blocks: LiveBlock[];
}

export interface RunState {
  loaded: boolean;
  experiment: ExperimentState | null;
  blocks: Readonly<Record<string, LiveBlock>>;
  lastSeq: number;
  /** the server said that no more events come */
  ended: boolean;
  deleted: boolean;
  /** why the server stopped telling us, if it did */
  refused: string | null;
}

export type RunStore = StoreApi<RunState>;

const NOTHING: RunState = {
  loaded: false,
  experiment: null,
  blocks: {},
  lastSeq: 0,
  ended: false,
  deleted: false,
  refused: null,
};

export function createRunStore(): RunStore {
  return createStore<RunState>(() => NOTHING);
}

export function fromSnapshot(snapshot: RunSnapshot): RunState {
  return {
    ...NOTHING,
    loaded: true,
    experiment: snapshot.state,
    blocks: Object.fromEntries(snapshot.blocks.map((block) => [block.name, block])),
    lastSeq: snapshot.seq,
    ended: FINAL_EXPERIMENT_STATES.has(snapshot.state),
  };
}

/** The state after a batch of events; blocks that no event names stay the same object. */
export function applyEvents(state: RunState, events: readonly LiveEvent[]): RunState {
  const last = events.at(-1);
  if (last === undefined) return state;
  const next = { ...state, lastSeq: last.seq };
  let blocks: Record<string, LiveBlock> | null = null;
  for (const event of events) {
    if (event.kind === "experiment") next.experiment = event.details.state;
    else if (event.kind === "deleted") next.deleted = true;
    else {
      blocks ??= { ...state.blocks };
      const block = blocks[event.block];
      if (block !== undefined) blocks[event.block] = withEvent(block, event);
    }
  }
  if (blocks !== null) next.blocks = blocks;
  return next;
}

type BlockEvent = Extract<LiveEvent, { kind: "block" | "progress" }>;

function withEvent(block: LiveBlock, event: BlockEvent): LiveBlock {
  if (event.kind === "progress") {
    const { fraction, message } = event.details;
    return { ...block, progress: fraction ?? block.progress, message: message ?? block.message };
  }
  return { ...withoutOldRun(block, event.details.state, event.time), ...given(event.details) };
}

/** A block that waits again has no worker and no times of the run before. */
function withoutOldRun(block: LiveBlock, state: BlockState, time: string): LiveBlock {
  if (state === "blocked" || state === "queued") {
    return {
      ...block,
      reason: null,
      failure: null,
      progress: null,
      message: null,
      worker: null,
      queued_at: state === "queued" ? time : null,
      started_at: null,
      finished_at: null,
    };
  }
  if (state === "running") return { ...block, reason: null, started_at: time, finished_at: null };
  if (FINAL_BLOCK_STATES.has(state)) return { ...block, finished_at: time, progress: null };
  return block;
}

/** The details without the fields that the server left out. */
function given<T extends object>(details: T): Partial<T> {
  return Object.fromEntries(
    Object.entries(details).filter(([, value]) => value !== undefined),
  ) as Partial<T>;
}
