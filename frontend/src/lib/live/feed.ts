/**
 * The order of one experiment's events, and nothing else: no socket, no clock.
 * Whatever arrives (late, twice, out of order), what comes out is 1, 2, 3, … with no hole.
 */
import type { LiveEvent } from "./protocol";

export interface Accepted {
  /** next in order, ready to apply */
  ready: LiveEvent[];
  /** there is a hole after `lastSeq`: ask for a replay */
  hole: boolean;
}

export class EventOrder {
  /** the last event handed out */
  lastSeq: number;
  private readonly early = new Map<number, LiveEvent>();

  constructor(lastSeq: number) {
    this.lastSeq = lastSeq;
  }

  accept(events: readonly LiveEvent[]): Accepted {
    for (const event of events) {
      if (event.seq > this.lastSeq) this.early.set(event.seq, event);
    }
    const ready: LiveEvent[] = [];
    for (let next = this.take(); next !== undefined; next = this.take()) ready.push(next);
    return { ready, hole: this.early.size > 0 };
  }

  private take(): LiveEvent | undefined {
    const event = this.early.get(this.lastSeq + 1);
    if (event === undefined) return undefined;
    this.early.delete(event.seq);
    this.lastSeq = event.seq;
    return event;
  }
}
