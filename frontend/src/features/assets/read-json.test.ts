import { expect, test } from "vitest";
import { readJson } from "./read-json";

test("an object is read", () => {
  expect(readJson('{"a": 1}')).toEqual({ value: { a: 1 } });
});

test("what breaks the text is told with its line", () => {
  expect(readJson('{\n  "a": 1,\n  "b": oops\n}')).toMatchObject({ error: { line: 3 } });
  expect(readJson("{")).toMatchObject({ error: { line: 1 } });
});

test("a list or a number is no declaration", () => {
  expect(readJson("[1]")).toMatchObject({ error: { message: "This must be an object: { … }" } });
});

test.each([
  ['{"a": 1,}', "A name in double quotes is expected here"],
  ['{"a" 1}', "A colon is expected here"],
  ['{"a": [1 2]}', "A comma or a closing bracket is expected here"],
  ['{"a": [1}', "This bracket closes nothing"],
  ['{"a": 01}', "A value is expected here"],
  ["", "The text ends too early. A value is expected here"],
])("%s: %s", (text, message) => {
  expect(readJson(text)).toMatchObject({ error: { message } });
});
