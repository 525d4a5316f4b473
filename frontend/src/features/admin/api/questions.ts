/** What the administrator's page asks. Each list is short by nature and asked for whole. */
import { queryOptions } from "@tanstack/react-query";
import { answer, api, everything } from "@/lib/api/client";

const list = <T>(
  name: string,
  ask: (query: { limit: number; cursor?: string }) => Promise<{ items: T[]; next?: string | null }>,
) => queryOptions({ queryKey: ["admin", name], queryFn: () => everything(ask) });

export const usersQuery = list("users", (query) =>
  answer(api.GET("/api/v1/users", { params: { query } })),
);
export const groupsQuery = list("groups", (query) =>
  answer(api.GET("/api/v1/groups", { params: { query } })),
);
export const rightsQuery = list("rights", (query) =>
  answer(api.GET("/api/v1/rights", { params: { query } })),
);
export const queuesQuery = list("queues", (query) =>
  answer(api.GET("/api/v1/queues", { params: { query } })),
);
export const environmentsQuery = list("environments", (query) =>
  answer(api.GET("/api/v1/environments", { params: { query } })),
);
export const workersQuery = list("workers", (query) =>
  answer(api.GET("/api/v1/workers", { params: { query } })),
);
export const sharesQuery = list("slot-shares", (query) =>
  answer(api.GET("/api/v1/slot-shares", { params: { query } })),
);
export const credentialsQuery = list("credentials", (query) =>
  answer(api.GET("/api/v1/worker-credentials", { params: { query } })),
);

export const stateQuery = queryOptions({
  queryKey: ["admin", "state"],
  queryFn: ({ signal }) => answer(api.GET("/api/v1/admin/state", { signal })),
  refetchInterval: 3000,
});
export const cacheQuery = queryOptions({
  queryKey: ["admin", "cache"],
  queryFn: ({ signal }) => answer(api.GET("/api/v1/admin/cache", { signal })),
});
export const logLevelsQuery = queryOptions({
  queryKey: ["admin", "log-levels"],
  queryFn: ({ signal }) => answer(api.GET("/api/v1/admin/log-levels", { signal })),
});
