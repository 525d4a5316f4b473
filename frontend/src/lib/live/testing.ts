/** A server of the live protocol for tests: an event log, and sockets that misbehave on order. */
import type { BlockState, ExperimentState } from "@/lib/state/states";
import type { Socket } from "./connection";
import type { ClientFrame, LiveEvent, ServerFrame } from "./protocol";
import type { EventPage } from "./run-feed";
import { applyEvents, createRunStore, fromSnapshot, type LiveBlock, type RunSnapshot } from "./run-store";

/** Chance that can be repeated: mulberry32. */
export function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

export function liveBlock(name: string, state: BlockState = "blocked"): LiveBlock {
  return {
    id: name,
    name,
    kind: "block",
    state,
    reason: null,
    failure: null,
    progress: null,
    message: null,
    worker: null,
    queue: "q",
    environment: "e 1",
    slots: 1,
    algorithm: "a/b/1",
    inputs: [],
    attempt: 1,
    queued_at: null,
    started_at: null,
    finished_at: null,
  };
}

/** The log of one experiment, which is the truth that every page must arrive at. */
export class EventLog {
  readonly events: LiveEvent[] = [];
  private readonly names: string[];

  constructor(names: string[]) {
    this.names = names;
  }

  private stamp() {
    const seq = this.events.length + 1;
    return { seq, time: new Date(seq * 1000).toISOString() };
  }

  block(block: string, state: BlockState): void {
    this.events.push({ ...this.stamp(), kind: "block", block, details: { state } });
  }

  progress(block: string, fraction: number): void {
    this.events.push({ ...this.stamp(), kind: "progress", block, details: { fraction } });
  }

  experiment(state: ExperimentState): void {
    this.events.push({ ...this.stamp(), kind: "experiment", block: null, details: { state } });
  }

  snapshot(seq: number = this.events.length): RunSnapshot {
    const start = fromSnapshot({
      seq: 0,
      state: "draft",
      blocks: this.names.map((name) => liveBlock(name)),
    });
    const state = applyEvents(start, this.events.slice(0, seq));
    return { seq, state: state.experiment ?? "draft", blocks: Object.values(state.blocks) };
  }

  after(seq: number, limit = 500): EventPage {
    return {
      events: this.events.slice(seq, seq + limit),
      lastSeq: this.events.length,
      ended: false,
    };
  }

  truth(): Record<string, BlockState> {
    const blocks = this.snapshot().blocks;
    return Object.fromEntries(blocks.map((block) => [block.name, block.state]));
  }
}

export function states(store: ReturnType<typeof createRunStore>): Record<string, BlockState> {
  const { blocks } = store.getState();
  return Object.fromEntries(Object.values(blocks).map((block) => [block.name, block.state]));
}

/** A socket whose server side is in the hands of the test. */
export class ScriptedSocket implements Socket {
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;
  onerror: (() => void) | null = null;
  readonly sent: ClientFrame[] = [];
  closed = false;

  send(text: string): void {
    this.sent.push(JSON.parse(text) as ClientFrame);
  }

  close(): void {
    this.closed = true;
  }

  accept(): void {
    this.onopen?.();
  }

  deliver(frame: ServerFrame): void {
    this.onmessage?.({ data: JSON.stringify(frame) });
  }

  cut(code = 1006): void {
    this.closed = true;
    this.onclose?.({ code });
  }

  /** The position of the last subscription to the experiment, or null. */
  subscribedAfter(experiment: string): number | null {
    const frame = this.sent.findLast(
      (sent) => sent.type === "subscribe" && "experiment" in sent && sent.experiment === experiment,
    );
    return frame !== undefined && "after" in frame ? frame.after : null;
  }
}
