// One script and one style sheet with fixed names: the binary embeds them, and `--html` puts them into one file.
// Preact's licence asks to go where Preact goes, so it stands at the head of the script.
import { readFileSync } from "node:fs";
import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "inline" },
  build: {
    target: "es2022",
    outDir: "dist",
    assetsInlineLimit: 0,
    modulePreload: false,
    cssCodeSplit: false,
    reportCompressedSize: false,
    rollupOptions: {
      output: { banner: () => `/*! Preact is in this file:\n${readFileSync("node_modules/preact/LICENSE", "utf8")}*/`, format: "iife", entryFileNames: "viewer.js", assetFileNames: "viewer[extname]", inlineDynamicImports: true },
    },
  },
});
