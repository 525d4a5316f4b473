import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { answer, api } from "@/lib/api/client";

/** `state` is part of the key: a block that changed is asked for again. */
export const blockQuery = (experiment: string, block: string, state: string) =>
  queryOptions({
    queryKey: ["experiment", experiment, "block", block, state],
    queryFn: ({ signal }) =>
      answer(
        api.GET("/api/v1/experiments/{id}/blocks/{name}", {
          params: { path: { id: experiment, name: block } },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
    staleTime: 5000,
    // Why it waits changes with what others do; nothing pushes that.
    refetchInterval: state === "queued" || state === "blocked" ? 10_000 : false,
  });
