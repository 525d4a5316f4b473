/** Keeps the list true: changes arrive by the socket; what is new or missed is asked for. */
import { useQueryClient, type InfiniteData } from "@tanstack/react-query";
import { useCallback } from "react";
import type { ExperimentSummary } from "@/lib/api/types";
import { useListChanges } from "@/lib/live/live";
import type { ListedExperiment } from "@/lib/live/protocol";

type Pages = InfiniteData<{ items: ExperimentSummary[]; next: string | null }, string | undefined>;

export function useLiveList(): void {
  const queries = useQueryClient();
  const onChanges = useCallback(
    (changed: ListedExperiment[]) => {
      const byId = new Map(changed.map((each) => [each.id, each]));
      const known = new Set<string>();
      queries.setQueriesData<Pages>({ queryKey: ["experiments"] }, (data) => {
        if (data === undefined || !("pages" in data)) return data;
        return patched(data, byId, known);
      });
      // New here, or perhaps no longer matching the filter: the server knows.
      if (changed.length === 0 || changed.some((each) => !known.has(each.id))) {
        void queries.invalidateQueries({ queryKey: ["experiments"] });
      }
    },
    [queries],
  );
  useListChanges(onChanges);
}

function patched(data: Pages, byId: Map<string, ListedExperiment>, known: Set<string>): Pages {
  return {
    ...data,
    pages: data.pages.map((page) => ({
      ...page,
      items: page.items.map((item) => {
        const change = byId.get(item.id);
        if (change === undefined) return item;
        known.add(item.id);
        return { ...item, ...change };
      }),
    })),
  };
}
