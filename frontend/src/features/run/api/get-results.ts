import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { answer, api } from "@/lib/api/client";

/** `finished` counts the analyzers that are done: each new one is a reason to ask again. */
export const resultsQuery = (experiment: string, finished: number) =>
  queryOptions({
    queryKey: ["experiment", experiment, "results", finished],
    queryFn: ({ signal }) =>
      answer(
        api.GET("/api/v1/experiments/{id}/results", {
          params: { path: { id: experiment } },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });
