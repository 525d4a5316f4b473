import { infiniteQueryOptions } from "@tanstack/react-query";
import { answer, api } from "@/lib/api/client";
import type { ExperimentState } from "@/lib/state/states";

export interface ExperimentFilter {
  q?: string;
  state?: ExperimentState;
  owner?: string;
}

export function experimentsQuery(filter: ExperimentFilter) {
  return infiniteQueryOptions({
    queryKey: ["experiments", filter],
    queryFn: ({ pageParam, signal }) =>
      answer(
        api.GET("/api/v1/experiments", {
          params: { query: { ...filter, limit: 50, cursor: pageParam } },
          signal,
        }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
  });
}
