// Unit tests run in Node: nothing that they test needs a page. The timeout is for machines that are busy.
import { defineConfig } from "vitest/config";

export default defineConfig({
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  test: { include: ["test/**/*.test.ts", "test/**/*.test.tsx"], testTimeout: 120_000 },
});
