/** JSON from the editor, or where it breaks; engines do not all say where, so this looks itself. */

export interface JsonError {
  line: number;
  message: string;
}

export type Read = { value: Record<string, unknown> } | { error: JsonError };

export function readJson(text: string): Read {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    const { at, message } = firstError(text);
    return { error: { line: text.slice(0, at).split("\n").length, message } };
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return { error: { line: 1, message: "This must be an object: { … }" } };
  }
  return { value: value as Record<string, unknown> };
}

const TOKEN =
  /\s*(?:([{}[\],:])|("(?:[^"\\\n]|\\.)*")|(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)(?![\w.]))/y;

type Wanted = "value" | "key" | "colon" | "next";

/** Reads token by token; the first one that cannot stand where it stands is the error. */
function firstError(text: string): { at: number; message: string } {
  const open: string[] = [];
  let wanted: Wanted = "value";
  let first = false; // just after an opening bracket, where it may close at once
  let at = 0;
  const WORDS: Record<Wanted, string> = {
    value: "A value is expected here",
    key: "A name in double quotes is expected here",
    colon: "A colon is expected here",
    next: "A comma or a closing bracket is expected here",
  };
  for (;;) {
    const start = at + (/^\s*/.exec(text.slice(at))?.[0].length ?? 0);
    TOKEN.lastIndex = at;
    const token = TOKEN.exec(text);
    if (start >= text.length) return { at: text.length, message: `The text ends too early. ${WORDS[wanted]}` };
    if (token === null) return { at: start, message: WORDS[wanted] };
    at = TOKEN.lastIndex;
    const [, sign, string, other] = token;
    const closes = sign === "}" || sign === "]";
    if (closes && (wanted === "next" || first)) {
      if (open.pop() !== (sign === "}" ? "{" : "[")) return { at: start, message: "This bracket closes nothing" };
      [wanted, first] = ["next", false];
      continue;
    }
    if (wanted === "value" && (sign === "{" || sign === "[")) {
      open.push(sign);
      [wanted, first] = [sign === "{" ? "key" : "value", true];
      continue;
    }
    first = false;
    if (wanted === "value" && (string !== undefined || other !== undefined)) wanted = "next";
    else if (wanted === "key" && string !== undefined) wanted = "colon";
    else if (wanted === "colon" && sign === ":") wanted = "value";
    else if (wanted === "next" && sign === "," && open.length > 0) wanted = open.at(-1) === "{" ? "key" : "value";
    else return { at: start, message: WORDS[wanted] };
  }
}
