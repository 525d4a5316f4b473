import { expect, test } from "vitest";
import { asScalar, asTable, heatOf } from "./read-result";

test("numbers, words and truths are scalars; the rest is not", () => {
  expect([asScalar(0.123456789), asScalar("x"), asScalar(true), asScalar(null)]).toEqual([
    "0.12346",
    "x",
    "yes",
    "–",
  ]);
  expect([asScalar([1]), asScalar({})]).toEqual([null, null]);
});

test("a table has columns and rows of lists; whatever else was written is none", () => {
  expect(asTable({ columns: ["a", 1], rows: [[1, 2]] })).toEqual({
    columns: ["a", "1"],
    rows: [[1, 2]],
  });
  expect(asTable({ columns: ["a"], rows: ["not a list"] })).toBeNull();
  expect(asTable({ columns: "a", rows: [] })).toBeNull();
  expect(asTable([[1]])).toBeNull();
});

test("a confusion matrix is shaded, a plain table is not", () => {
  const matrix = { columns: ["truth", "0", "1"], rows: [["0", 7, 1], ["1", 0, 9]] };
  expect(heatOf(matrix)).toBe(9);
  expect(heatOf({ columns: ["a", "b"], rows: [["x", 1], ["y", 2]] })).toBeNull();
});
