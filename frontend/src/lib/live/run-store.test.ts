import { expect, test } from "vitest";
import type { LiveEvent } from "./protocol";
import { applyEvents, fromSnapshot } from "./run-store";
import { liveBlock } from "./testing";

const START = fromSnapshot({
  seq: 7,
  state: "pending",
  blocks: [liveBlock("a", "queued"), liveBlock("b")],
});

test("an event changes its block and leaves the others the same object", () => {
  const next = applyEvents(START, [
    {
      seq: 8,
      time: "2026-11-30T12:00:00Z",
      kind: "block",
      block: "a",
      details: { state: "running", worker: "w1" },
    },
  ]);
  expect(next.blocks.a).toMatchObject({
    state: "running",
    worker: "w1",
    started_at: "2026-11-30T12:00:00Z",
  });
  expect(next.blocks.b).toBe(START.blocks.b);
  expect(next.lastSeq).toBe(8);
});

test("a time that the server gives wins over the time of the event", () => {
  const next = applyEvents(START, [
    {
      seq: 8,
      time: "2026-11-30T12:00:05Z",
      kind: "block",
      block: "a",
      details: { state: "running", started_at: "2026-11-30T12:00:01Z" },
    },
  ]);
  expect(next.blocks.a?.started_at).toBe("2026-11-30T12:00:01Z");
});

test("a block that is queued again forgets its worker, its times and its progress", () => {
  const time = "2026-11-30T12:00:00Z";
  const events: LiveEvent[] = [
    { seq: 8, time, kind: "block", block: "a", details: { state: "running", worker: "w1" } },
    { seq: 9, time, kind: "progress", block: "a", details: { fraction: 0.5 } },
    { seq: 10, time, kind: "block", block: "a", details: { state: "lost" } },
    { seq: 11, time, kind: "block", block: "a", details: { state: "queued", attempt: 2 } },
  ];
  expect(applyEvents(START, events).blocks.a).toMatchObject({
    state: "queued",
    attempt: 2,
    worker: null,
    progress: null,
    started_at: null,
  });
});

test("an event of a block that the page does not know changes nothing else", () => {
  const next = applyEvents(START, [
    { seq: 8, time: "", kind: "block", block: "new", details: { state: "done" } },
  ]);
  expect(Object.keys(next.blocks)).toEqual(["a", "b"]);
  expect(next.lastSeq).toBe(8);
});
