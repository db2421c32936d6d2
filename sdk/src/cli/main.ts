import { Command, CommanderError } from 'commander'
import { PlatenError, ValidationError } from '../errors.ts'
import { build } from './build.ts'
import { showCapabilities } from './capabilities.ts'
import { connect } from './connection.ts'
import { doctor } from './doctor.ts'
import { cancelJob, listJobs, showJob } from './jobs.ts'
import { exitCodes, UsageError } from './outcome.ts'
import { printable } from './terminal.ts'

/** @returns the exit code: 0 succeeded, 1 the job failed, 2 usage or server error */
export async function main(args: readonly string[]): Promise<number> {
  let code: number = exitCodes.succeeded
  const run = <A extends unknown[]>(action: (...given: A) => Promise<number>) => {
    return async (...given: A) => {
      code = await action(...given)
    }
  }
  const program = new Command('platen')
    .description('Documents into documents, durably. Server from PLATEN_URL, token from PLATEN_TOKEN.')
    .exitOverride()
    .showHelpAfterError()
  const command = (usage: string, description: string) => program.command(usage).description(description).exitOverride()

  command('build <dir>', 'build a LaTeX project to a PDF')
    .option('--engine <engine>', 'pdflatex, xelatex or lualatex; else what the document says')
    .option('--entry <file>', 'file to start from, such as main.tex')
    .option('--keep-going', 'publish what TeX made in spite of errors')
    .option('-o, --output <file>', 'where the PDF goes')
    .option('--json', 'print the job as JSON')
    .action(run((directory, flags) => build(connect(), directory, flags)))
  command('jobs', 'list your jobs, newest first')
    .option('--limit <number>', 'how many', '20')
    .option('--json', 'as JSON')
    .action(run((flags) => listJobs(connect(), flags)))
  command('job <id>', 'show a job')
    .option('--json', 'as JSON')
    .action(run((id, flags) => showJob(connect(), id, flags)))
  command('cancel <id>', 'ask a job to stop')
    .option('--json', 'as JSON')
    .action(run((id, flags) => cancelJob(connect(), id, flags)))
  command('capabilities', 'say what the server can do')
    .option('--packages', 'list its packages')
    .option('--fonts', 'list its fonts')
    .option('--json', 'as JSON')
    .action(run((flags) => showCapabilities(connect(), flags)))
  command('doctor', 'say what is missing and how to get it')
    .option('--json', 'as JSON')
    .action(run((flags) => doctor(flags)))

  try {
    await program.parseAsync(args, { from: 'user' })
    return code
  } catch (error) {
    return report(error)
  }
}

function report(error: unknown): number {
  // It has said its words already; asking for help is no error.
  if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.succeeded : exitCodes.error
  const say = (line: string) => process.stderr.write(`${printable(line)}\n`)
  if (error instanceof ValidationError) for (const issue of error.issues) say(`error: ${issue.message}`)
  else if (error instanceof PlatenError || error instanceof UsageError) say(`error: ${error.message}`)
  else if ((error as NodeJS.ErrnoException).code) say(`error: ${(error as Error).message}`)
  else say((error as Error).stack ?? String(error))
  return exitCodes.error
}
