/** How questions to the server are kept and asked again. */
import { QueryClient } from "@tanstack/react-query";
import { ApiProblem } from "@/lib/api/client";

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 15_000,
      refetchOnWindowFocus: true,
      // What the server refused it will refuse again; what did not arrive may.
      retry: (failures, error) =>
        failures < 3 && !(error instanceof ApiProblem && error.status < 500 && error.status !== 429),
    },
  },
});
