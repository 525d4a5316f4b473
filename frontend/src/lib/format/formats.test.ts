import { expect, test } from "vitest";
import { bytes, memory } from "./numbers";
import { ago, duration, secondsBetween } from "./times";

test.each([
  [-3, "0.0 s"],
  [0.84, "0.8 s"],
  [59.9, "59 s"],
  [185, "3 min 05 s"],
  [7440, "2 h 04 min"],
  [266_400, "3 d 2 h"],
])("a duration of %d s is written %s", (seconds, text) => {
  expect(duration(seconds)).toBe(text);
});

test("elapsed time is never negative, and crosses a change to winter time unharmed", () => {
  expect(secondsBetween("2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", 0)).toBe(3600);
  expect(secondsBetween("2026-10-25T02:00:00Z", "2026-10-25T01:00:00Z", 0)).toBe(0);
});

test("how long ago", () => {
  const now = Date.parse("2026-11-30T12:00:00Z");
  expect(ago("2026-11-30T11:59:40Z", now)).toBe("just now");
  expect(ago("2026-11-30T11:57:00Z", now)).toBe("3 minutes ago");
  expect(ago("2026-11-28T12:00:00Z", now)).toBe("2 days ago");
});

test("sizes", () => {
  expect([bytes(0), bytes(999), bytes(1_234_567)]).toEqual(["0 B", "999 B", "1.23 MB"]);
  expect([memory(512), memory(4096)]).toEqual(["512 MiB", "4 GiB"]);
});
