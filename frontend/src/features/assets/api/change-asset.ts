import { useMutation, useQueryClient } from "@tanstack/react-query";
import { answer, api, ifMatch } from "@/lib/api/client";
import type { AssetKind, Declared, Visibility } from "@/lib/api/types";

export interface NewAsset {
  name: string;
  version?: number | null;
  declaration: Record<string, unknown>;
  source?: string;
  files?: Record<string, string>;
  documentation?: string;
  visibility?: Visibility;
}

/** Creates, changes or deletes things of one kind; lists are asked for again afterwards. */
export function useAssetChanges(kind: AssetKind) {
  const queries = useQueryClient();
  const refresh = () => void queries.invalidateQueries({ queryKey: ["declared", kind] });
  const create = useMutation({
    mutationFn: (body: NewAsset): Promise<Declared> =>
      answer(api.POST(`/api/v1/${kind}` as const, { body })),
    onSuccess: refresh,
  });
  const update = useMutation({
    mutationFn: ({ asset, change }: { asset: Declared; change: Partial<NewAsset> }) => {
      const { declaration, source, files, documentation } = change;
      const body = { declaration, source, files, documentation };
      const header = ifMatch(asset.revision);
      if (kind === "databases") {
        const params = { path: { name: asset.name, version: asset.version }, header };
        return answer(api.PATCH("/api/v1/databases/{name}/{version}", { params, body }));
      }
      const params = { path: pathOf(asset), header };
      return answer(api.PATCH(`/api/v1/${kind}/{owner}/{name}/{version}` as const, { params, body }));
    },
    onSuccess: refresh,
  });
  const share = useMutation({
    mutationFn: ({ asset, visibility, groups }: { asset: Declared; visibility: Visibility; groups: string[] }) => {
      const body = { visibility, groups };
      if (kind === "databases") {
        const params = { path: { name: asset.name, version: asset.version } };
        return answer(api.PUT("/api/v1/databases/{name}/{version}/sharing", { params, body }));
      }
      const params = { path: pathOf(asset) };
      return answer(
        api.PUT(`/api/v1/${kind}/{owner}/{name}/{version}/sharing` as const, { params, body }),
      );
    },
    onSuccess: refresh,
  });
  const remove = useMutation({
    mutationFn: (asset: Declared) => {
      const header = ifMatch(asset.revision);
      if (kind === "databases") {
        const params = { path: { name: asset.name, version: asset.version }, header };
        return answer(api.DELETE("/api/v1/databases/{name}/{version}", { params }));
      }
      const params = { path: pathOf(asset), header };
      return answer(api.DELETE(`/api/v1/${kind}/{owner}/{name}/{version}` as const, { params }));
    },
    onSuccess: refresh,
  });
  return { create, update, share, remove };
}

function pathOf({ owner, name, version }: Declared) {
  return { owner, name, version };
}
