import { parentPort } from 'node:worker_threads'
import { getDocument, type PDFDocumentLoadingTask, VerbosityLevel } from 'pdfjs-dist/legacy/build/pdf.mjs'

export type PdfReport = { readonly pages: number } | { readonly error: string }

async function inspect(data: Uint8Array): Promise<PdfReport> {
  let task: PDFDocumentLoadingTask | null = null
  try {
    task = getDocument({
      data,
      verbosity: VerbosityLevel.ERRORS,
      // Nothing is drawn: no font and no address is loaded.
      disableFontFace: true,
      useSystemFonts: false,
      stopAtErrors: true,
    })
    const document = await task.promise
    const pages = document.numPages
    if (pages > 0) await document.getPage(1)
    return { pages }
  } catch (error) {
    return { error: String((error as Error).message).slice(0, 200) }
  } finally {
    await task?.destroy()
  }
}

// The first document would pay for loading the parser.
void inspect(new TextEncoder().encode('%PDF-1.4'))

parentPort?.on('message', (data: Uint8Array) => {
  void inspect(data).then((report) => parentPort?.postMessage(report))
})
