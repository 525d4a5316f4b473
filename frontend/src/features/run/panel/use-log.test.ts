import { expect, test } from "vitest";
import { asShown, withPiece, type LogLine } from "./use-log";

const piece = (text: string, stream: LogLine["stream"] = "stdout") => ({ text, stream, start: 0 });

test("a line that comes in two pieces is one line", () => {
  const lines = [piece("hel"), piece("lo\nwor"), piece("ld\n")].reduce<LogLine[]>(withPiece, []);
  expect(lines.map((line) => line.text)).toEqual(["hello", "world", ""]);
});

test("another stream begins another line", () => {
  const lines = [piece("out"), piece("err\n", "stderr"), piece("more")].reduce<LogLine[]>(withPiece, []);
  expect(lines.map((line) => `${line.stream}: ${line.text}`)).toEqual([
    "stdout: out",
    "stderr: err",
    "stderr: ",
    "stdout: more",
  ]);
});

test("a progress bar that writes over itself is shown as it ended", () => {
  expect(asShown("10 %\r50 %\r100 %")).toBe("100 %");
  expect(asShown("done\r")).toBe("done");
});
