import checkFile from "eslint-plugin-check-file";
import { importX } from "eslint-plugin-import-x";
import reactHooks from "eslint-plugin-react-hooks";
import { readdirSync } from "node:fs";
import tseslint from "typescript-eslint";

const features = readdirSync(new URL("./src/features", import.meta.url));

/** A feature may use lib and components, never another feature. */
const zones = features.map((feature) => ({
  target: `./src/features/${feature}`,
  from: "./src/features",
  except: [`./${feature}`],
  message: "Features do not import features: move what is shared to lib or components.",
}));

export default tseslint.config(
  { ignores: ["dist", "node_modules", "src/lib/api/schema.d.ts", "src/**/*.css.d.ts"] },
  ...tseslint.configs.strictTypeChecked,
  reactHooks.configs.flat.recommended,
  {
    languageOptions: {
      parserOptions: { projectService: { allowDefaultProject: ["postcss.config.cjs"] } },
    },
    plugins: { "import-x": importX, "check-file": checkFile },
    settings: { "import-x/resolver": { typescript: true } },
    rules: {
      "check-file/filename-naming-convention": [
        "error",
        { "**/*.{ts,tsx,js,mjs,cjs}": "KEBAB_CASE" },
        { ignoreMiddleExtensions: true },
      ],
      "import-x/no-cycle": "error",
      "import-x/no-restricted-paths": [
        "error",
        {
          zones: [
            ...zones,
            {
              target: ["./src/lib", "./src/components"],
              from: ["./src/features", "./src/app"],
              message: "lib and components know no feature.",
            },
            { target: "./src/features", from: "./src/app", message: "Features do not know the app." },
          ],
        },
      ],
      "no-console": "error",
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      "@typescript-eslint/no-misused-promises": [
        "error",
        { checksVoidReturn: { attributes: false } },
      ],
    },
  },
  {
    files: ["**/*.{js,mjs,cjs}"],
    extends: [tseslint.configs.disableTypeChecked],
    rules: { "no-console": "off" },
  },
  { files: ["scripts/**"], rules: { "no-console": "off" } },
);
