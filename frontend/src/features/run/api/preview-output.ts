import { queryOptions } from "@tanstack/react-query";
import { answer, api } from "@/lib/api/client";

export const PREVIEW_ROWS = 20;

export const previewQuery = (experiment: string, block: string, output: string, offset: number) =>
  queryOptions({
    queryKey: ["experiment", experiment, "block", block, "output", output, offset],
    queryFn: ({ signal }) =>
      answer(
        api.GET("/api/v1/experiments/{id}/blocks/{name}/outputs/{output}", {
          params: {
            path: { id: experiment, name: block, output },
            query: { offset, limit: PREVIEW_ROWS },
          },
          signal,
        }),
      ),
    staleTime: Infinity, // what a block wrote does not change
  });
