// Unit tests run in Node: nothing that they test needs a page.
import { defineConfig } from "vitest/config";

export default defineConfig({
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  test: { include: ["test/**/*.test.ts", "test/**/*.test.tsx"] },
});
