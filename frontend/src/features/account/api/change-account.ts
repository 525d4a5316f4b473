import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { answer, api, ifMatch } from "@/lib/api/client";
import { meQuery } from "@/lib/api/session";
import type { User } from "@/lib/api/types";

export const tokensQuery = queryOptions({
  queryKey: ["tokens"],
  queryFn: ({ signal }) => answer(api.GET("/api/v1/me/tokens", { signal })),
});

type Scope = "read" | "write" | "admin";

export function useTokenChanges() {
  const queries = useQueryClient();
  const onSuccess = () => void queries.invalidateQueries({ queryKey: tokensQuery.queryKey });
  const create = useMutation({
    mutationFn: (body: { name: string; scopes: Scope[]; expires_at: string | null }) =>
      answer(api.POST("/api/v1/me/tokens", { body })),
    onSuccess,
  });
  const remove = useMutation({
    mutationFn: (id: string) =>
      answer(api.DELETE("/api/v1/me/tokens/{token_id}", { params: { path: { token_id: id } } })),
    onSuccess,
  });
  return { create, remove };
}

export function useChangeEmail(me: User) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (email: string) =>
      answer(
        api.PATCH("/api/v1/me", { params: { header: ifMatch(me.revision) }, body: { email } }),
      ),
    onSuccess: (user) => queries.setQueryData(meQuery.queryKey, user),
  });
}

export function useChangePassword() {
  return useMutation({
    mutationFn: (body: { current_password: string; new_password: string }) =>
      answer(api.PUT("/api/v1/me/password", { body })),
    // It signs out everywhere, here too.
    onSuccess: () => location.assign("/sign-in"),
  });
}
