import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { answer, api, ApiProblem, everything, type ProblemBody } from "@/lib/api/client";
import type { DatabaseFile, Declared } from "@/lib/api/types";

export const filesQuery = ({ name, version }: Declared) =>
  queryOptions({
    queryKey: ["declared", "databases", "files", name, version],
    queryFn: ({ signal }): Promise<DatabaseFile[]> =>
      everything((page) =>
        answer(
          api.GET("/api/v1/databases/{name}/{version}/files", {
            params: { path: { name, version }, query: page },
            signal,
          }),
        ),
      ),
  });

/** A file goes as it is, streamed by the browser; the server keeps it under its hash. */
export function useUploadFile({ name, version }: Declared) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async (file: File) => {
      const path = file.name.split("/").map(encodeURIComponent).join("/");
      const to = `/api/v1/databases/${encodeURIComponent(name)}/${version}/files/${path}`;
      const response = await fetch(to, { method: "PUT", body: file, credentials: "same-origin" });
      if (!response.ok) throw new ApiProblem(response.status, (await response.json()) as ProblemBody);
    },
    onSuccess: () =>
      void queries.invalidateQueries({
        queryKey: ["declared", "databases", "files", name, version],
      }),
  });
}
