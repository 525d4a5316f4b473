/** The queues that one may use, and what one may hold there. */
import { queryOptions } from "@tanstack/react-query";
import { answer, api } from "../client";

export const usableQueuesQuery = queryOptions({
  queryKey: ["usable-queues"],
  queryFn: ({ signal }) => answer(api.GET("/api/v1/me/queues", { signal })),
  staleTime: 10_000,
});
