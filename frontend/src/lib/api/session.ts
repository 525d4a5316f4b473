/** Who is signed in. */
import { queryOptions, useQuery } from "@tanstack/react-query";
import { answer, api, ApiProblem } from "./client";
import type { User } from "./types";

export const meQuery = queryOptions({
  queryKey: ["me"],
  queryFn: async ({ signal }): Promise<User | null> => {
    try {
      return await answer(api.GET("/api/v1/me", { signal }));
    } catch (error) {
      if (error instanceof ApiProblem && error.status === 401) return null;
      throw error;
    }
  },
  staleTime: 5 * 60_000,
});

/** The signed-in user; the pages behind the sign-in are drawn only when there is one. */
export function useMe(): User | null {
  return useQuery(meQuery).data ?? null;
}
