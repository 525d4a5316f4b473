/** JSON from the editor, or where it breaks. */

export interface JsonError {
  line: number;
  message: string;
}

export type Read = { value: Record<string, unknown> } | { error: JsonError };

export function readJson(text: string): Read {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      return { error: { line: 1, message: "This must be an object: { … }" } };
    }
    return { value: value as Record<string, unknown> };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return { error: { line: lineOf(text, message), message } };
  }
}

/** Engines say where in different ways: "position 12", or "line 3 column 4". */
function lineOf(text: string, message: string): number {
  const line = /line (\d+)/.exec(message)?.[1];
  if (line !== undefined) return Number(line);
  const position = /position (\d+)/.exec(message)?.[1];
  if (position === undefined) return text.split("\n").length;
  return text.slice(0, Number(position)).split("\n").length;
}
