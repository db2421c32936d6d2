import { existsSync } from 'node:fs'
import { UnauthenticatedError } from '../errors.ts'
import { type Connection, connect } from './connection.ts'
import { exitCodes } from './outcome.ts'
import { printable } from './terminal.ts'

interface Finding {
  readonly ok: boolean
  readonly what: string
  readonly fix?: string
}

const programs = [
  ['/usr/bin/bwrap', 'bubblewrap (the sandbox)', 'apt-get install bubblewrap'],
  [
    '/usr/bin/latexmk',
    'TeX Live with latexmk',
    'apt-get install --no-install-recommends texlive-latex-recommended texlive-fonts-recommended texlive-plain-generic texlive-xetex texlive-luatex texlive-bibtex-extra biber latexmk lmodern texlive-font-utils ghostscript poppler-utils',
  ],
  ['/usr/bin/xelatex', 'XeLaTeX', 'apt-get install --no-install-recommends texlive-xetex'],
  ['/usr/bin/biber', 'biber', 'apt-get install --no-install-recommends biber'],
] as const

/** Says what is missing, here and at the server, and what to do about it. @returns 2 if anything is */
export async function doctor({ json }: { readonly json?: boolean }): Promise<number> {
  const findings = [...(await serverFindings()), ...hostFindings()]
  if (json) process.stdout.write(`${JSON.stringify(findings, null, 2)}\n`)
  else {
    for (const { ok, what, fix } of findings) {
      process.stdout.write(
        `${printable(`${ok ? 'ok      ' : 'MISSING '}${what}${ok || !fix ? '' : `\n        ${fix}`}`)}\n`,
      )
    }
  }
  return findings.every((finding) => finding.ok) ? exitCodes.succeeded : exitCodes.error
}

async function serverFindings(): Promise<Finding[]> {
  let connection: Connection
  try {
    connection = connect()
  } catch (error) {
    return [{ ok: false, what: 'a token', fix: (error as Error).message }]
  }
  const { platen, tokenSource, url } = connection
  if (!(await platen.isReady()))
    return [{ ok: false, what: `a server at ${url}`, fix: 'Start one with "npm start", or set PLATEN_URL.' }]
  const server: Finding = { ok: true, what: `the server at ${url} is ready` }
  try {
    const { name } = await platen.viewer()
    const operations = (await platen.capabilities()).map(({ operation, state }) => ({
      ok: state === 'AVAILABLE',
      what: `${operation} is ${state}`,
      fix: 'No worker serves it: see .platen/worker.log, and what is missing below.',
    }))
    return [server, { ok: true, what: `the token of ${tokenSource} is that of ${name}` }, ...operations]
  } catch (error) {
    if (!(error instanceof UnauthenticatedError)) throw error
    return [
      server,
      {
        ok: false,
        what: `a token that the server knows (tried ${tokenSource})`,
        fix: 'Set PLATEN_TOKEN to the one that "npm start" prints.',
      },
    ]
  }
}

const hostFindings = (): Finding[] =>
  programs.map(([path, what, fix]) => ({ ok: existsSync(path), what: `${what} on this host`, fix }))
