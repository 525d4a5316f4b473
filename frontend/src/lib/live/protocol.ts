/** The frames of the live protocol (subprotocol gristmill.v1), parsed at the door. */
import type { BlockState, ExperimentState } from "@/lib/state/states";

export const SUBPROTOCOL = "gristmill.v1";

export interface BlockDetails {
  state: BlockState;
  reason?: string | null;
  failure?: { kind: string; message: string; trace?: string | null } | null;
  attempt?: number | null;
  worker?: string | null;
  queued_at?: string | null;
  started_at?: string | null;
  finished_at?: string | null;
}

interface Stamp {
  /** dense per experiment: the next one is always one more */
  seq: number;
  time: string;
}

export type LiveEvent =
  | (Stamp & { kind: "block"; block: string; details: BlockDetails })
  | (Stamp & {
      kind: "progress";
      block: string;
      details: { fraction?: number | null; message?: string | null };
    })
  | (Stamp & { kind: "experiment"; block: null; details: { state: ExperimentState } })
  | (Stamp & { kind: "deleted"; block: null; details: Record<string, unknown> });

export interface ListedExperiment {
  id: string;
  [field: string]: unknown;
}

export type ServerFrame =
  | { type: "events"; experiment: string; events: LiveEvent[] }
  | { type: "resync"; experiment: string | null }
  | { type: "end"; experiment: string; last_seq: number }
  | { type: "unsubscribed"; experiment: string; reason: string }
  | { type: "experiment"; experiment: ListedExperiment }
  | { type: "deleted"; experiment: string }
  | { type: "error"; detail: string };

export type ClientFrame =
  | { type: "subscribe"; experiment: string; after: number }
  | { type: "unsubscribe"; experiment: string }
  | { type: "subscribe"; list: true };

/** Close codes that say: do not try again with this credential. */
export const CLOSE = { unauthenticated: 4401, forbidden: 4403, expired: 4408, tryLater: 1013 };

const KNOWN = new Set(["events", "resync", "end", "unsubscribed", "experiment", "error"]);

/** A frame of a type that this page does not know is null: a newer server may speak more. */
export function parseFrame(text: string): ServerFrame | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof value !== "object" || value === null || !("type" in value)) return null;
  return KNOWN.has(String(value.type)) ? (value as ServerFrame) : null;
}
