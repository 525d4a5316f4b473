/** Things of the library: whole lists (for choosing), and one thing in full. */
import { queryOptions } from "@tanstack/react-query";
import { answer, api, everything } from "../client";
import type { AssetKind, Declared, DeclaredSummary } from "../types";

const LISTS = {
  toolchains: "/api/v1/toolchains",
  algorithms: "/api/v1/algorithms",
  libraries: "/api/v1/libraries",
  dataformats: "/api/v1/dataformats",
  databases: "/api/v1/databases",
} as const;

export const allDeclaredQuery = (kind: AssetKind) =>
  queryOptions({
    queryKey: ["declared", kind, "all"],
    queryFn: ({ signal }): Promise<DeclaredSummary[]> =>
      everything((page) => answer(api.GET(LISTS[kind], { params: { query: page }, signal }))),
    staleTime: 60_000,
  });

/** `ref` is owner/name/version, of a database name/version. */
export const declaredQuery = (kind: AssetKind, ref: string) =>
  queryOptions({
    queryKey: ["declared", kind, "one", ref],
    queryFn: ({ signal }): Promise<Declared> => {
      const [owner = "", name = "", version = ""] = ref.split("/");
      if (kind === "databases") {
        const params = { path: { name: owner, version: Number(name) } };
        return answer(api.GET("/api/v1/databases/{name}/{version}", { params, signal }));
      }
      const params = { path: { owner, name, version: Number(version) } };
      return answer(api.GET(`${LISTS[kind]}/{owner}/{name}/{version}`, { params, signal }));
    },
    staleTime: 60_000,
  });
