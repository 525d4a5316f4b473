/** The log of one attempt as it is written: asked for by long poll, from where we stand. */
import { useEffect, useState } from "react";
import { answer, api, ApiProblem, messageOf } from "@/lib/api/client";
import type { LogPage, LogPiece } from "@/lib/api/types";

export interface LogLine {
  stream: LogPiece["stream"];
  text: string;
}

export interface Log {
  lines: LogLine[];
  complete: boolean;
  /** nothing was tried yet, so there is nothing to read */
  untried: boolean;
  error: string | null;
}

const NOTHING: Log = { lines: [], complete: false, untried: false, error: null };
const WAIT_SECONDS = 20;

/** The lines with one more piece; the last line goes on while it has no end. */
export function withPiece(lines: LogLine[], piece: LogPiece): LogLine[] {
  const parts = piece.text.split("\n");
  const last = lines.at(-1);
  const next = lines.slice();
  const [first = "", ...rest] = parts;
  if (last?.stream === piece.stream) next[next.length - 1] = { ...last, text: last.text + first };
  else next.push({ stream: piece.stream, text: first });
  for (const text of rest) next.push({ stream: piece.stream, text });
  return next;
}

/** What a terminal would show: after a carriage return the line is written anew. */
export function asShown(text: string): string {
  const whole = text.endsWith("\r") ? text.slice(0, -1) : text;
  return whole.slice(whole.lastIndexOf("\r") + 1);
}

export function useLog(experiment: string, block: string, attempt: string | undefined, run: string) {
  const [shown, setShown] = useState({ key: "", log: NOTHING });
  // `run` changes when the block is tried again: its log begins anew.
  const key = JSON.stringify([experiment, block, attempt, run]);
  useEffect(() => {
    const leave = new AbortController();
    void follow(experiment, block, attempt, leave.signal, (log) => setShown({ key, log }));
    return () => leave.abort();
  }, [experiment, block, attempt, key]);
  return shown.key === key ? shown.log : NOTHING;
}

async function follow(
  experiment: string,
  block: string,
  attempt: string | undefined,
  signal: AbortSignal,
  show: (log: Log) => void,
): Promise<void> {
  let log = NOTHING;
  let offset = 0;
  const left = () => signal.aborted;
  for (let failures = 0; !left(); ) {
    try {
      const page: LogPage = await answer(
        api.GET("/api/v1/experiments/{id}/blocks/{name}/log", {
          params: {
            path: { id: experiment, name: block },
            query: { attempt, offset, wait: offset === 0 && failures === 0 ? 0 : WAIT_SECONDS },
          },
          signal,
        }),
      );
      log = {
        lines: page.pieces.reduce(withPiece, log.lines),
        complete: page.complete,
        untried: page.attempt === null,
        error: null,
      };
      show(log);
      if (page.complete || page.attempt === null) return;
      // The first answer does not wait; an empty one after it must not be asked in a hurry.
      if (page.next === offset) failures++;
      offset = page.next;
    } catch (error) {
      if (left()) return;
      show({ ...log, error: messageOf(error) });
      if (error instanceof ApiProblem && error.status < 500 && error.status !== 429) return;
      failures++;
      await new Promise((go) => setTimeout(go, Math.min(15_000, 500 * 2 ** failures)));
    }
  }
}
