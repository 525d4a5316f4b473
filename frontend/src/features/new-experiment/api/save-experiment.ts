import { useMutation, useQueryClient } from "@tanstack/react-query";
import { answer, api, ifMatch } from "@/lib/api/client";
import type { Experiment } from "@/lib/api/types";
import type { ExperimentDraft } from "./validate-experiment";

interface Wanted {
  draft: ExperimentDraft;
  start: boolean;
  /** the experiment that is edited, if it is there already */
  edited: Experiment | null;
  /** the same for all tries of one submission: it is created once */
  key: string;
}

async function save({ draft, edited, key }: Wanted): Promise<{ id: string }> {
  if (edited === null) {
    return answer(
      api.POST("/api/v1/experiments", {
        params: { header: { "Idempotency-Key": key } },
        body: draft,
      }),
    );
  }
  return answer(
    api.PATCH("/api/v1/experiments/{id}", {
      params: { path: { id: edited.id }, header: ifMatch(edited.revision) },
      body: {
        name: draft.name,
        description: draft.description,
        declaration: draft.declaration,
      },
    }),
  );
}

export function useSaveExperiment() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async (wanted: Wanted) => {
      const { id } = await save(wanted);
      if (wanted.start) {
        await answer(api.POST("/api/v1/experiments/{id}/start", { params: { path: { id } } }));
      }
      return id;
    },
    onSuccess: (id) => {
      void queries.invalidateQueries({ queryKey: ["experiments"] });
      queries.removeQueries({ queryKey: ["experiment", id] });
    },
  });
}
