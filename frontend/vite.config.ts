/** How the page is built, and how its unit tests run. */
import react from "@vitejs/plugin-react";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const server = process.env.GRISTMILL_SERVER ?? "http://127.0.0.1:8000";

// As the server says it, so that a preview shows what the policy would forbid.
const csp =
  "default-src 'self'; img-src 'self' data: blob:; worker-src 'self' blob:; object-src 'none'; base-uri 'none'";

export default defineConfig({
  plugins: [react()],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  build: {
    target: "es2022",
    // An inlined file would need `data:` in the content security policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 2000,
    manifest: true,
  },
  worker: { format: "es" },
  server: { proxy: { "/api": { target: server, ws: true } } },
  preview: { proxy: { "/api": { target: server, ws: true } }, headers: { "Content-Security-Policy": csp } },
  test: {
    environment: "jsdom",
    include: ["src/**/*.test.{ts,tsx}"],
    setupFiles: ["src/test-setup.ts"],
    css: false,
  },
});
