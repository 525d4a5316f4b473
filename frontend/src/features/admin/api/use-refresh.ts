import { useQueryClient } from "@tanstack/react-query";

/** Does something, then asks for everything of the administrator's page again. */
export function useRefresh() {
  const queries = useQueryClient();
  return async <T>(done: Promise<T>): Promise<T> => {
    const result = await done;
    await queries.invalidateQueries({ queryKey: ["admin"] });
    return result;
  };
}
