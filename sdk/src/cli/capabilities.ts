import type { Connection } from './connection.ts'
import { exitCodes } from './outcome.ts'
import { printable } from './terminal.ts'

/** Says what the server can do. */
export async function showCapabilities(
  { platen }: Connection,
  flags: { readonly json?: boolean; readonly packages?: boolean; readonly fonts?: boolean },
): Promise<number> {
  const capabilities = await platen.capabilities()
  if (flags.json) {
    process.stdout.write(`${JSON.stringify(capabilities, null, 2)}\n`)
    return exitCodes.succeeded
  }
  const write = (line: string) => process.stdout.write(`${printable(line)}\n`)
  if (capabilities.length === 0) write('This server offers no operation.')
  for (const { operation, state, processors } of capabilities) {
    write(`${operation}  ${state}`)
    for (const { name, version, contract, distribution, engines, packages, fonts } of processors) {
      write(`  ${name} ${version}${distribution ? `, ${distribution}` : ''}, contract ${contract.slice(0, 12)}`)
      if (engines.length > 0) write(`  engines: ${engines.join(', ')}`)
      write(`  ${packages.length} packages, ${fonts.length} font families (list them with --packages, --fonts)`)
      if (flags.packages) for (const each of packages) write(`    ${each}`)
      if (flags.fonts) for (const each of fonts) write(`    ${each}`)
    }
  }
  return exitCodes.succeeded
}
