import { infiniteQueryOptions } from "@tanstack/react-query";
import { answer, api } from "@/lib/api/client";
import type { AssetKind } from "@/lib/api/types";

export const assetsQuery = (kind: AssetKind, q: string | undefined) =>
  infiniteQueryOptions({
    queryKey: ["declared", kind, "list", q],
    queryFn: ({ pageParam, signal }) =>
      answer(
        api.GET(`/api/v1/${kind}` as const, {
          params: { query: { q, limit: 50, cursor: pageParam } },
          signal,
        }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
  });
