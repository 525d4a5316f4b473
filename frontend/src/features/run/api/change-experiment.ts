import { useMutation, useQueryClient } from "@tanstack/react-query";
import { answer, api, ifMatch } from "@/lib/api/client";
import { live } from "@/lib/live/live";

/** Starts, stops, forks or deletes; the new state itself arrives as an event. */
export function useExperimentActions(id: string) {
  const queries = useQueryClient();
  const at = { params: { path: { id } } };
  const refresh = () => {
    live.reopen(id);
    void queries.invalidateQueries({ queryKey: ["experiment", id], exact: true });
    void queries.invalidateQueries({ queryKey: ["experiments"] });
  };
  const start = useMutation({
    mutationFn: () => answer(api.POST("/api/v1/experiments/{id}/start", at)),
    onSuccess: refresh,
  });
  const stop = useMutation({
    mutationFn: () => answer(api.POST("/api/v1/experiments/{id}/stop", at)),
    onSuccess: refresh,
  });
  const fork = useMutation({
    mutationFn: () => answer(api.POST("/api/v1/experiments/{id}/fork", { ...at, body: {} })),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ["experiments"] }),
  });
  const remove = useMutation({
    mutationFn: async () => {
      // The revision moves with every change of state: take the one of this moment.
      const { revision } = await answer(api.GET("/api/v1/experiments/{id}", at));
      await answer(
        api.DELETE("/api/v1/experiments/{id}", {
          params: { path: { id }, header: ifMatch(revision) },
        }),
      );
    },
    onSuccess: () => void queries.invalidateQueries({ queryKey: ["experiments"] }),
  });
  return { start, stop, fork, remove };
}
