import { WorkerConfigError } from './config.ts'
import { latexProcessor } from './processors/latex/index.ts'
import { startWorker } from './sdk/index.ts'

try {
  await startWorker([latexProcessor()])
  process.exit(0)
} catch (error) {
  process.stderr.write(`${error instanceof WorkerConfigError ? error.message : (error as Error).stack}\n`)
  process.exit(1)
}
