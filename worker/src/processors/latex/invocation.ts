import { posix } from 'node:path'
import type { LatexEngine, OnError } from '../../protocol/index.ts'
import type { Program } from '../../sdk/index.ts'

/** Clock of a document whose manifest has none: 2025-01-01T00:00:00Z. A fixed moment, so that equal input gives equal output. */
const defaultSourceEpoch = 1_735_689_600

/** Latexmk rules for what projects usually ask a latexmkrc for, which is Perl and therefore never obeyed. */
const rules = [
  'add_cus_dep("glo","gls",0,"mkgls")',
  'add_cus_dep("acn","acr",0,"mkgls")',
  'add_cus_dep("slo","sls",0,"mkgls")',
  'sub mkgls{my($b,$p)=fileparse($_[0]);pushd($p);my$r=system("makeglossaries-lite","-q",$b);popd();return$r}',
  'add_cus_dep("nlo","nls",0,"mknls")',
  'sub mknls{return system("makeindex","-s","nomencl.ist","-o","$_[0].nls","$_[0].nlo")}',
].join(';')

const engineFlags: Readonly<Record<LatexEngine, string>> = { pdflatex: '-pdf', xelatex: '-pdfxe', lualatex: '-pdflua' }

/** Names that a former run, or an author who committed them, may have left, and that would pass for results or spoil the run. */
const staleExtensions = [
  'aux',
  'fdb_latexmk',
  'fls',
  'log',
  'pdf',
  'synctex.gz',
  'synctex',
  'bcf',
  'run.xml',
  'blg',
  'xdv',
  'dvi',
] as const

/** Path of a file beside the entry with its stem: what TeX calls its output. */
export const outputPath = (entry: string, extension: string): string =>
  posix.join(posix.dirname(entry), `${posix.basename(entry).replace(/\.[^.]+$/, '')}.${extension}`)

/** The .bbl stays: a submission bundle has it in place of the .bib. */
export const stalePaths = (entry: string): string[] => staleExtensions.map((extension) => outputPath(entry, extension))

export interface Invocation {
  readonly entry: string
  readonly engine: LatexEngine
  readonly onError: OnError
  readonly sourceEpoch: number | null
  /** As the program sees them. */
  readonly projectPath: string
  readonly statePath: string
}

/** The one command that builds a document. */
export function invocation({ entry, engine, onError, sourceEpoch, projectPath, statePath }: Invocation): Program {
  return {
    command: '/usr/bin/latexmk',
    args: [
      '-norc',
      '-cd',
      // Without it latexmk stops after the first pass with an error, which is all one needs to know of a failed job.
      ...(onError === 'publish' ? ['-f'] : []),
      '-e',
      rules,
      engineFlags[engine],
      '-interaction=nonstopmode',
      '-file-line-error',
      '-recorder',
      '-synctex=1',
      // Only the list below: pictures in PostScript need their converter.
      '-latexoption=-shell-restricted',
      entry,
    ],
    environment: environment({ sourceEpoch, projectPath, statePath }),
    directory: '',
  }
}

export function environment({
  sourceEpoch,
  projectPath,
  statePath,
}: Pick<Invocation, 'sourceEpoch' | 'projectPath' | 'statePath'>): Record<string, string> {
  return {
    PATH: '/usr/bin:/bin',
    HOME: '/tmp',
    LANG: 'C.UTF-8',
    LC_ALL: 'C.UTF-8',
    TZ: 'UTC',
    TEXMFVAR: `${statePath}/texmf-var`,
    TEXMFHOME: `${statePath}/texmf-home`,
    TEXMFCONFIG: `${statePath}/texmf-config`,
    // Real projects keep their class beside the folder of the entry.
    TEXINPUTS: `.:${projectPath}:`,
    BIBINPUTS: `.:${projectPath}:`,
    BSTINPUTS: `.:${projectPath}:`,
    OSFONTDIR: `${projectPath}//:/usr/share/fonts//`,
    SOURCE_DATE_EPOCH: String(sourceEpoch ?? defaultSourceEpoch),
    FORCE_SOURCE_DATE: '1',
    // Wrapped lines cannot be told from whole ones, so TeX may not wrap.
    max_print_line: '2000',
    error_line: '254',
    half_error_line: '238',
    openin_any: 'a',
    openout_any: 'p',
    // A font that is missing would be looked for by METAFONT in each size, for minutes.
    MKTEXTFM: '0',
    MKTEXMF: '0',
    shell_escape_commands: 'repstopdf,extractbb,kpsewhich,makeindex,bibtex',
  }
}
