/** The places of the blocks, worked out off the main thread and kept per topology. */
import { useEffect, useState } from "react";
import type { Direction, Placed } from "@/lib/graph/geometry";
import { layout, refinedLayout } from "@/lib/graph/layouts";
import type { Topology } from "@/lib/graph/topology";

export function useLayout(topology: Topology, direction: Direction, refined: boolean) {
  const [placed, setPlaced] = useState<{ direction: Direction; placed: Placed } | null>(null);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    let current = true;
    const make = refined ? refinedLayout : layout;
    make(topology, direction).then(
      (found) => {
        if (current) setPlaced({ direction, placed: found });
      },
      (problem: unknown) => {
        if (current) setError(problem);
      },
    );
    return () => {
      current = false;
    };
  }, [topology, direction, refined]);
  return { placed: placed?.direction === direction ? placed.placed : null, error };
}
