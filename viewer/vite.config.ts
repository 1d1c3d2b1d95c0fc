// One script and one style sheet with fixed names: the binary embeds them, and `--html` puts them into one file.
import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  build: {
    target: "es2022",
    outDir: "dist",
    assetsInlineLimit: 0,
    modulePreload: false,
    cssCodeSplit: false,
    reportCompressedSize: false,
    rollupOptions: {
      output: { format: "iife", entryFileNames: "viewer.js", assetFileNames: "viewer[extname]", inlineDynamicImports: true },
    },
  },
});
