import { expect, test } from "vitest";
import { EventOrder } from "./feed";
import type { LiveEvent } from "./protocol";

function progress(seq: number): LiveEvent {
  return { seq, time: "2026-11-30T12:00:00Z", kind: "progress", block: "a", details: {} };
}

const seqs = (events: LiveEvent[]) => events.map((event) => event.seq);

test("events in order come out as they came", () => {
  const order = new EventOrder(4);
  expect(seqs(order.accept([progress(5), progress(6)]).ready)).toEqual([5, 6]);
  expect(order.lastSeq).toBe(6);
});

test("what was seen is dropped", () => {
  const order = new EventOrder(4);
  order.accept([progress(5)]);
  expect(order.accept([progress(4), progress(5), progress(5)])).toEqual({ ready: [], hole: false });
});

test("a hole is told, and what came early is kept until it is filled", () => {
  const order = new EventOrder(0);
  expect(order.accept([progress(3), progress(2)])).toEqual({ ready: [], hole: true });
  const { ready, hole } = order.accept([progress(1)]);
  expect(seqs(ready)).toEqual([1, 2, 3]);
  expect(hole).toBe(false);
});
