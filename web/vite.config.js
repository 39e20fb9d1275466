// Three files with fixed names, as crates/web/src/asset.rs includes them. No name contains a hash: the server sends an ETag.
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

export default defineConfig({
  base: '/',
  plugins: [svelte()],
  build: {
    outDir: 'dist',
    emptyOutDir: true,
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    rollupOptions: {
      output: {
        banner: '/* Armento; with Svelte (MIT, Svelte contributors) and uPlot (MIT, Leon Sorokin) */',
        entryFileNames: 'app.js',
        chunkFileNames: 'app-[name].js',
        assetFileNames: 'app[extname]',
      },
    },
  },
});
