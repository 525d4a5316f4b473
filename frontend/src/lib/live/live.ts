/** The live part of this tab, joined to the server's API. */
import { useEffect } from "react";
import { useStore } from "zustand";
import { answer, api } from "@/lib/api/client";
import type { Snapshot } from "@/lib/api/types";
import { LiveHub } from "./hub";
import type { ListedExperiment, LiveEvent } from "./protocol";
import type { RunSource } from "./run-feed";
import type { RunSnapshot, RunStore } from "./run-store";

const signedOut = new Set<() => void>();

/** Called when the server closed the socket because the session ended. */
export function onSessionEnd(listener: () => void): () => void {
  signedOut.add(listener);
  return () => signedOut.delete(listener);
}

export const live = new LiveHub({
  source: sourceOf,
  onSignedOut: () => {
    for (const listener of signedOut) listener();
  },
});

if (typeof window !== "undefined") {
  window.addEventListener("online", () => live.connection.retryNow());
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) live.connection.retryNow();
  });
}

function sourceOf(experiment: string): RunSource {
  return {
    snapshot: async () =>
      toRun(
        await answer(
          api.GET("/api/v1/experiments/{id}/snapshot", { params: { path: { id: experiment } } }),
        ),
      ),
    events: async (after, wait) => {
      const page = await answer(
        api.GET("/api/v1/experiments/{id}/events", {
          params: { path: { id: experiment }, query: { after, wait, limit: 200 } },
        }),
      );
      return { events: page.events as LiveEvent[], lastSeq: page.last_seq, ended: page.ended };
    },
  };
}

function toRun(snapshot: Snapshot): RunSnapshot {
  return {
    seq: snapshot.as_of_seq,
    state: snapshot.experiment.state,
    blocks: snapshot.blocks.map((block) => ({ ...block, message: null })),
  };
}

/** The store of a run while a page shows it. */
export function useRun(experiment: string): RunStore {
  useEffect(() => live.watch(experiment).release, [experiment]);
  return live.store(experiment);
}

/** Calls the listener with the experiments that changed; with none when some may be missed. */
export function useListChanges(listener: (changed: ListedExperiment[]) => void): void {
  useEffect(() => live.watchList(listener), [listener]);
}

export function useConnection() {
  return useStore(live.connection.state);
}
