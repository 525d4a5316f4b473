import { keepPreviousData, queryOptions } from "@tanstack/react-query";
import { answer, api } from "@/lib/api/client";
import type { ExperimentDeclaration } from "@/lib/api/types";

export interface ExperimentDraft {
  name: string;
  toolchain: string;
  declaration: ExperimentDeclaration;
  description: string;
}

export const validationQuery = (draft: ExperimentDraft) =>
  queryOptions({
    queryKey: ["validation", draft],
    queryFn: ({ signal }) =>
      // A name that is missing or wrong must not hide what else is.
      answer(
        api.POST("/api/v1/experiments/validate", {
          body: { ...draft, name: "draft", description: "" },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
    staleTime: 30_000,
    gcTime: 60_000,
  });
