/** What the parts of the drawing share without handing it through every node. */
import { createContext, useContext } from "react";
import { useStore } from "zustand";
import type { Direction } from "@/lib/graph/geometry";
import type { LiveBlock, RunStore } from "@/lib/live/run-store";
import type { BlockState } from "@/lib/state/states";

export interface RunView {
  store: RunStore;
  /** states that are shown; none means all */
  chosen: ReadonlySet<BlockState>;
  /** what hangs together with the selected block; null when none is selected */
  related: ReadonlySet<string> | null;
  selected: string | undefined;
  select: (block: string | undefined) => void;
  direction: Direction;
}

export const RunContext = createContext<RunView | null>(null);

export function useRunView(): RunView {
  const view = useContext(RunContext);
  if (view === null) throw new Error("RunContext is missing");
  return view;
}

/** One block; only its own changes draw its node again. */
export function useBlock(name: string): LiveBlock | undefined {
  return useStore(useRunView().store, (state) => state.blocks[name]);
}
