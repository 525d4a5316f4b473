import { useMutation } from "@tanstack/react-query";
import { answer, api } from "@/lib/api/client";
import { complain } from "@/components/ui/toasts";

export function useSignOut() {
  return useMutation({
    mutationFn: () => answer(api.DELETE("/api/v1/auth/session")),
    // A fresh page: no data of this person stays in memory.
    onSuccess: () => location.assign("/sign-in"),
    onError: complain,
  });
}
