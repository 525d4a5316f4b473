/** A thing of the library as the editor holds it. */
import type { Declared } from "@/lib/api/types";
import type { AssetText } from "./asset-editor";

export function textOf(asset: Declared): AssetText {
  return {
    declaration: JSON.stringify(asset.declaration ?? {}, null, 2),
    source: asset.source ?? "",
    files: asset.files ?? {},
    documentation: asset.documentation,
  };
}
