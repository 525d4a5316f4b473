/** What the kinds of things in the library are called, and what a new one begins with. */
import type { AssetKind } from "@/lib/api/types";
import { ASSET_KINDS } from "@/lib/api/types";

interface KindWords {
  many: string;
  one: string;
  about: string;
  /** what there is besides the declaration */
  code: "source" | "files" | null;
  starts: { declaration: object; source?: string; files?: Record<string, string> };
}

export const KINDS: Record<AssetKind, KindWords> = {
  toolchains: {
    many: "Toolchains",
    one: "toolchain",
    about: "Which blocks there are, and how data flows between them.",
    code: null,
    starts: {
      declaration: {
        description: "",
        datasets: [{ name: "data", outputs: ["value"] }],
        blocks: [],
        analyzers: [{ name: "analysis", synchronized_channel: "data", inputs: ["value"] }],
        connections: [{ from: "data.value", to: "analysis.value", channel: "data" }],
        representation: { blocks: {}, connections: {}, channel_colors: {} },
      },
    },
  },
  algorithms: {
    many: "Algorithms",
    one: "algorithm",
    about: "What a block does: a declaration of ports and parameters, with its source.",
    code: "source",
    starts: {
      declaration: {
        schema_version: 2,
        api_version: 2,
        type: "sequential",
        language: "python",
        splittable: false,
        groups: [{ inputs: { value: { type: "me/format/1" } }, outputs: { value: { type: "me/format/1" } } }],
        parameters: {},
      },
      source:
        'class Algorithm:\n    def setup(self, parameters):\n        return True\n\n    def process(self, inputs, data_loaders, outputs):\n        outputs["value"].write({"value": inputs["value"].data.value})\n        return True\n',
    },
  },
  libraries: {
    many: "Libraries",
    one: "library",
    about: "Python files that algorithms import under an alias.",
    code: "files",
    starts: {
      declaration: { language: "python", uses: {}, description: "" },
      files: { "__init__.py": "" },
    },
  },
  dataformats: {
    many: "Data formats",
    one: "data format",
    about: "What flows between ports: fields and their types.",
    code: null,
    starts: { declaration: { value: "float64" } },
  },
  databases: {
    many: "Databases",
    one: "database",
    about: "Protocols and sets of data, served by views.",
    code: "source",
    starts: {
      declaration: {
        description: "",
        root_folder: "/data",
        protocols: [
          {
            name: "all",
            template: "all",
            sets: [{ name: "all", template: "all", view: "View", outputs: { value: "me/format/1" }, parameters: {} }],
          },
        ],
      },
      source:
        "class View:\n    def index(self, root_folder, parameters):\n        return []\n\n    def get(self, output, index):\n        return {}\n",
    },
  },
};

export function kindOf(text: string): AssetKind | null {
  return ASSET_KINDS.find((kind) => kind === text) ?? null;
}
