/** What a result's value is, whatever an algorithm wrote. */

export interface Table {
  columns: string[];
  rows: unknown[][];
}

const number = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 5 });

export function asScalar(value: unknown): string | null {
  if (typeof value === "number") return number.format(value);
  if (typeof value === "string") return value;
  if (typeof value === "boolean") return value ? "yes" : "no";
  return value === null ? "–" : null;
}

export function asTable(value: unknown): Table | null {
  if (typeof value !== "object" || value === null) return null;
  if (!("columns" in value) || !("rows" in value)) return null;
  const { columns, rows } = value;
  if (!Array.isArray(columns) || !Array.isArray(rows)) return null;
  if (!rows.every((row): row is unknown[] => Array.isArray(row))) return null;
  return { columns: columns.map(String), rows };
}

/** The largest number of a square table of numbers behind one column of names, else null. */
export function heatOf(table: Table): number | null {
  const square = table.rows.length > 1 && table.columns.length === table.rows.length + 1;
  if (!square) return null;
  const numbers = table.rows.flatMap((row) => row.slice(1));
  if (!numbers.every((each): each is number => typeof each === "number" && each >= 0)) return null;
  return Math.max(...numbers);
}
