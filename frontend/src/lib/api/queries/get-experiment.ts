import { queryOptions } from "@tanstack/react-query";
import { answer, api } from "../client";
import type { Experiment } from "../types";

export const experimentQuery = (id: string) =>
  queryOptions({
    queryKey: ["experiment", id],
    queryFn: async ({ signal }) => {
      const found = await answer(
        api.GET("/api/v1/experiments/{id}", { params: { path: { id } }, signal }),
      );
      return found as unknown as Experiment; // its documents are BEAT's forms
    },
  });
