import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

/** Bundles the widget into one module that needs nothing else. */
export async function buildWidget(): Promise<{ readonly code: string }> {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL('./src/define.ts', import.meta.url))],
    bundle: true,
    define: { 'process.env.NODE_ENV': '"production"' },
    format: 'esm',
    legalComments: 'none',
    minify: true,
    target: 'es2022',
    write: false,
  })
  return { code: outputFiles[0]?.text ?? '' }
}
