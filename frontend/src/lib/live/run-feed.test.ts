import { expect, test, vi } from "vitest";
import type { BlockState } from "@/lib/state/states";
import { RunFeed } from "./run-feed";
import { EventLog, seeded, states } from "./testing";

const NOW = (run: () => void) => queueMicrotask(run);
const soon = () => Promise.resolve();
const settled = async () => {
  for (let turn = 0; turn < 50; turn++) await Promise.resolve();
};

function feedOf(log: EventLog, subscribe: (after: number) => void = () => undefined) {
  return new RunFeed({
    source: {
      snapshot: () => Promise.resolve(log.snapshot()),
      events: (after) => Promise.resolve(log.after(after)),
    },
    subscribe,
    schedule: NOW,
    pause: soon,
  });
}

const frame = (log: EventLog, from: number, to: number) => ({
  type: "events" as const,
  experiment: "x",
  events: log.events.slice(from, to),
});

test("subscribes after the snapshot, and shows it", async () => {
  const log = new EventLog(["a", "b"]);
  log.block("a", "queued");
  const subscribe = vi.fn();
  const feed = feedOf(log, subscribe);
  await feed.load();
  expect(subscribe).toHaveBeenCalledWith(1);
  expect(states(feed.store)).toEqual({ a: "queued", b: "blocked" });
});

test("fills a hole by asking for a replay", async () => {
  const log = new EventLog(["a"]);
  const feed = feedOf(log);
  await feed.load();
  log.block("a", "queued");
  log.block("a", "assigned");
  log.block("a", "running");
  feed.receive(frame(log, 2, 3)); // 1 and 2 were lost
  await settled();
  expect(feed.store.getState()).toMatchObject({ lastSeq: 3 });
  expect(states(feed.store)).toEqual({ a: "running" });
});

test("fills a hole larger than one page of the replay", async () => {
  const log = new EventLog(["a"]);
  const feed = new RunFeed({
    source: {
      snapshot: () => Promise.resolve(log.snapshot()),
      events: (after) => Promise.resolve(log.after(after, 10)),
    },
    subscribe: () => undefined,
    schedule: NOW,
    pause: soon,
  });
  await feed.load();
  for (let step = 1; step <= 95; step++) log.progress("a", step / 100);
  feed.receive(frame(log, 94, 95));
  await settled();
  await settled();
  expect(feed.store.getState().lastSeq).toBe(95);
  expect(feed.store.getState().blocks.a?.progress).toBe(0.95);
});

test("a resync loads the snapshot again and subscribes after it", async () => {
  const log = new EventLog(["a"]);
  const subscribe = vi.fn();
  const feed = feedOf(log, subscribe);
  await feed.load();
  for (const state of ["queued", "assigned", "running", "done"] as const) log.block("a", state);
  feed.receive({ type: "resync", experiment: "x" });
  await settled();
  expect(states(feed.store)).toEqual({ a: "done" });
  expect(subscribe).toHaveBeenLastCalledWith(4);
});

test("the end is shown only once the last event is there", async () => {
  const log = new EventLog(["a"]);
  const feed = feedOf(log);
  await feed.load();
  log.block("a", "done");
  log.experiment("done");
  feed.receive({ type: "end", experiment: "x", last_seq: 2 });
  await settled();
  expect(feed.store.getState()).toMatchObject({ ended: true, experiment: "done", lastSeq: 2 });
});

test("many events within a frame are one update", async () => {
  const log = new EventLog(["a"]);
  const frames: (() => void)[] = [];
  const feed = new RunFeed({
    source: {
      snapshot: () => Promise.resolve(log.snapshot()),
      events: (after) => Promise.resolve(log.after(after)),
    },
    subscribe: () => undefined,
    schedule: (run) => frames.push(run),
    pause: soon,
  });
  await feed.load();
  const updates = vi.fn();
  feed.store.subscribe(updates);
  for (let step = 0; step < 300; step++) {
    log.progress("a", step / 300);
    feed.receive(frame(log, step, step + 1));
  }
  expect(updates).not.toHaveBeenCalled();
  for (const run of frames) run();
  expect(updates).toHaveBeenCalledTimes(1);
});

test("a refusal is told and not asked again", async () => {
  const snapshot = vi.fn(() =>
    Promise.reject(Object.assign(new Error("No such experiment"), { status: 404 })),
  );
  const feed = new RunFeed({
    source: { snapshot, events: () => Promise.reject(new Error("not asked")) },
    subscribe: () => undefined,
    schedule: NOW,
    pause: soon,
  });
  await feed.load();
  expect(snapshot).toHaveBeenCalledTimes(1);
  expect(feed.store.getState().refused).toBe("No such experiment");
});

test("a server that is away is asked until it answers", async () => {
  const log = new EventLog(["a"]);
  let failures = 3;
  const feed = new RunFeed({
    source: {
      snapshot: () =>
        failures-- > 0 ? Promise.reject(new TypeError("fetch failed")) : Promise.resolve(log.snapshot()),
      events: (after) => Promise.resolve(log.after(after)),
    },
    subscribe: () => undefined,
    schedule: NOW,
    pause: soon,
  });
  await feed.load();
  expect(feed.store.getState().loaded).toBe(true);
});

test("without a socket, polling brings everything up to the end", async () => {
  const log = new EventLog(["a"]);
  const feed = new RunFeed({
    source: {
      snapshot: () => Promise.resolve(log.snapshot(0)),
      events: (after) => Promise.resolve({ ...log.after(after, 1), ended: true }),
    },
    subscribe: () => undefined,
    schedule: NOW,
    pause: soon,
  });
  await feed.load();
  for (const state of ["queued", "assigned", "running", "done"] as const) log.block("a", state);
  await feed.poll(() => feed.store.getState().ended);
  expect(states(feed.store)).toEqual({ a: "done" });
});

const WALK: BlockState[] = ["queued", "assigned", "running", "done"];

/** Cuts, delays, repeats and shuffles; the page must end where the log ends, whatever came. */
test.each(Array.from({ length: 200 }, (_, seed) => seed))("any network, seed %i", async (seed) => {
  const random = seeded(seed);
  const names = ["a", "b", "c"];
  const log = new EventLog(names);
  const seen: number[] = [];
  const feed = feedOf(log);
  await feed.load();
  feed.store.subscribe((state) => seen.push(state.lastSeq));
  const late: [number, number][] = [];
  for (let step = 0; step < 40; step++) {
    const name = names[Math.floor(random() * names.length)] ?? "a";
    const from = log.events.length;
    log.block(name, WALK[Math.floor(random() * WALK.length)] ?? "queued");
    if (random() < 0.3) log.progress(name, random());
    const piece: [number, number] = [from, log.events.length];
    const luck = random();
    if (luck < 0.25) late.push(piece);
    else if (luck < 0.4) continue; // lost
    else feed.receive(frame(log, ...piece));
    if (luck > 0.85) feed.receive(frame(log, Math.max(0, from - 3), log.events.length));
    if (random() < 0.2) {
      late.sort(() => random() - 0.5);
      for (const kept of late.splice(0)) feed.receive(frame(log, ...kept));
    }
    if (random() < 0.05) feed.receive({ type: "resync", experiment: "x" });
    if (random() < 0.5) await settled();
  }
  feed.receive({ type: "end", experiment: "x", last_seq: log.events.length });
  for (let turn = 0; turn < 20; turn++) await settled();
  expect(states(feed.store)).toEqual(log.truth());
  expect(feed.store.getState()).toMatchObject({ ended: true, lastSeq: log.events.length });
  expect(seen).toEqual(seen.toSorted((a, b) => a - b)); // never backwards
});
