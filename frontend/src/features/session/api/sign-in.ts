import { useMutation, useQueryClient } from "@tanstack/react-query";
import { answer, api } from "@/lib/api/client";
import { meQuery } from "@/lib/api/session";

export function useSignIn() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (credentials: { username: string; password: string }) =>
      answer(api.POST("/api/v1/auth/session", { body: credentials })),
    onSuccess: (user) => {
      queries.clear(); // nothing of whoever was here before
      queries.setQueryData(meQuery.queryKey, user);
    },
  });
}
