import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { backOff } from "./connection";
import { LiveHub } from "./hub";
import { EventLog, ScriptedSocket, states } from "./testing";

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

function farm(names = ["a", "b"]) {
  const log = new EventLog(names);
  const sockets: ScriptedSocket[] = [];
  const onSignedOut = vi.fn();
  const hub = new LiveHub({
    open: () => {
      const socket = new ScriptedSocket();
      sockets.push(socket);
      return socket;
    },
    source: () => ({
      snapshot: () => Promise.resolve(log.snapshot()),
      events: (after) => Promise.resolve(log.after(after)),
    }),
    onSignedOut,
    schedule: (run) => queueMicrotask(run),
  });
  const last = () => {
    const socket = sockets.at(-1);
    if (socket === undefined) throw new Error("no socket was opened");
    return socket;
  };
  return { log, hub, sockets, last, onSignedOut };
}

const turn = () => vi.advanceTimersByTimeAsync(0);

test("after a cut it comes back and goes on after the last event seen", async () => {
  const { log, hub, sockets, last } = farm();
  const { store } = hub.watch("x");
  await turn();
  last().accept();
  expect(last().subscribedAfter("x")).toBe(0);
  log.block("a", "queued");
  last().deliver({ type: "events", experiment: "x", events: log.events.slice(0, 1) });
  await turn();
  last().cut();
  expect(hub.connection.state.getState().phase).toBe("waiting");
  log.block("a", "running"); // nobody hears this one
  await vi.advanceTimersByTimeAsync(1000);
  expect(sockets).toHaveLength(2);
  last().accept();
  expect(last().subscribedAfter("x")).toBe(1);
  last().deliver({ type: "events", experiment: "x", events: log.events.slice(1) });
  await turn();
  expect(states(store)).toEqual(log.truth());
});

test("a session that ended asks for a new sign-in and stops trying", async () => {
  const { hub, sockets, last, onSignedOut } = farm();
  hub.watch("x");
  await turn();
  last().accept();
  last().cut(4401);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(onSignedOut).toHaveBeenCalledOnce();
  expect(sockets).toHaveLength(1);
});

test("when no socket gets through, the same events come by polling", async () => {
  const { log, hub, last } = farm();
  const { store } = hub.watch("x");
  await turn();
  for (let failure = 0; failure < 3; failure++) {
    last().cut();
    await vi.advanceTimersByTimeAsync(16_000);
  }
  log.block("a", "done");
  await vi.advanceTimersByTimeAsync(2000);
  expect(states(store)).toEqual(log.truth());
  store.setState({ ended: true });
  last().accept();
});

test("leaving a page keeps the run for a while, then lets it go", async () => {
  const { hub, last } = farm();
  const first = hub.watch("x");
  await turn();
  last().accept();
  first.release();
  expect(hub.watch("x").store).toBe(first.store);
  first.release();
  await vi.advanceTimersByTimeAsync(31_000);
  expect(last().sent.some((frame) => frame.type === "unsubscribe")).toBe(false);
});

test("changes of the list reach the listener in one batch, and a gap is told", async () => {
  const { hub, last } = farm();
  hub.watch("x");
  const heard = vi.fn();
  hub.watchList(heard);
  await turn();
  last().accept();
  last().deliver({ type: "experiment", experiment: { id: "1" } });
  last().deliver({ type: "experiment", experiment: { id: "2" } });
  await turn();
  expect(heard.mock.calls).toEqual([[[{ id: "1" }, { id: "2" }]]]);
  last().cut();
  await vi.advanceTimersByTimeAsync(1000);
  last().accept();
  expect(heard).toHaveBeenLastCalledWith([]);
});

test("frames that are no JSON or of an unknown type are let pass", async () => {
  const { hub, last } = farm();
  const { store } = hub.watch("x");
  await turn();
  last().accept();
  last().onmessage?.({ data: "<html>" });
  last().onmessage?.({ data: '{"type":"tomorrow"}' });
  expect(store.getState().loaded).toBe(true);
});

test("the wait doubles up to 15 seconds, and chance spreads it over its second half", () => {
  expect([1, 2, 3, 4].map((failures) => backOff(failures, 1))).toEqual([400, 800, 1600, 3200]);
  expect(backOff(1, 0)).toBe(200);
  expect(backOff(50, 1)).toBe(15_000);
});
