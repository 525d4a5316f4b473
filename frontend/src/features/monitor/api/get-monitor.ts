import { queryOptions } from "@tanstack/react-query";
import { answer, api } from "@/lib/api/client";

export const monitorQuery = queryOptions({
  queryKey: ["monitor"],
  queryFn: ({ signal }) => answer(api.GET("/api/v1/monitor", { signal })),
  refetchInterval: 5000,
});
