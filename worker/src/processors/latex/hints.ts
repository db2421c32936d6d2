import type { LogEntry } from './log.ts'
import type { ProjectFiles } from './project-files.ts'

/** Debian packages that hold what is often missing. */
const debianPackages: readonly (readonly [pattern: RegExp, name: string])[] = [
  [
    /^(siunitx|algorithm|algorithm2e|algorithmic|algpseudocode|algorithmicx|mhchem|chemfig|physics|braket|SIunits)\./,
    'texlive-science',
  ],
  [
    /^(IEEEtran|acmart|elsarticle|revtex4|revtex4-1|revtex4-2|llncs|svjour3|apa6|apa7|amsrefs|aastex\d*)\./i,
    'texlive-publishers',
  ],
  [
    /^(fontawesome5?|sourcesanspro|sourcecodepro|newpxtext|newtxtext|libertine|libertinus|fira|FiraSans|roboto|raleway|cormorant|ebgaramond|inter)\./i,
    'texlive-fonts-extra',
  ],
  [/^(german|ngerman|germanb|naustrian)\./, 'texlive-lang-german'],
  [/^(french|frenchb|francais)\./, 'texlive-lang-french'],
  [/^(spanish|catalan|galician)\./, 'texlive-lang-spanish'],
  [/^italian\./, 'texlive-lang-italian'],
  [/^(portuguese|portuges|brazil|brazilian)\./, 'texlive-lang-portuguese'],
  [
    /^(dutch|danish|swedish|norsk|nynorsk|finnish|hungarian|magyar|romanian|turkish|estonian|latvian|icelandic|irish|welsh|slovene)\./,
    'texlive-lang-european',
  ],
  [/^(polish|polski)\./, 'texlive-lang-polish'],
  [/^(czech|slovak)\./, 'texlive-lang-czechslovak'],
  [/^(russian|ukrainian|bulgarian|serbianc)\./, 'texlive-lang-cyrillic'],
  [/^(greek|polutonikogreek)\./, 'texlive-lang-greek'],
  [/^(ctex\w*|xeCJK|CJK\w*|luatexja\w*|zhnumber|ctexart|ctexbook|ctexrep)\./, 'texlive-lang-chinese'],
  [/^(moderncv|tcolorbox|minted|enumitem|titlesec|multirow|tabularray|nicematrix|glossaries)\./, 'texlive-latex-extra'],
  [/^(pgf|tikz|pgfplots|circuitikz|tikz-cd)\./, 'texlive-pictures'],
  [/^(pst-\w+|pstricks)\./, 'texlive-pstricks'],
]

/** Files that come with a distribution, not with a document. */
const distributionFile = /\.(sty|cls|def|fd|ldf|cfg|clo|tfm|bst|bbx|cbx|lbx|code\.tex|lua|fmt|enc|map|pfb|otf|ttf)$/i

/** The file that LaTeX says it did not find, or null. */
export function missingFile(message: string): string | null {
  return (
    /File [`']([^'`]+)' not found/.exec(message)?.[1] ??
    /(?:I can't find file|cannot find file|could not find file|Unable to load picture or PDF file|Cannot find image file) [`'"]([^'"`]+)['"]/i.exec(
      message,
    )?.[1] ??
    /I couldn't open (?:database|style|auxiliary) file (\S+)/.exec(message)?.[1] ??
    /Cannot find '([^']+)'!?$/.exec(message)?.[1] ??
    null
  )
}

/** Whether the document needs something that the deployment, not the project, would have to have. */
export function needsDeployment(message: string): boolean {
  const file = missingFile(message)
  if (file !== null) return distributionFile.test(file)
  return /The font "[^"]*" cannot be found|Unknown option '\w+'\. Either you misspelled it or the language|metric data not found|Metric \(TFM\) file or installed font not found/.test(
    message,
  )
}

/** What to do about a finding, where we know. */
export function hintFor({ message }: LogEntry, files: ProjectFiles): string | null {
  const file = missingFile(message)
  if (file !== null) {
    const near = files.nearMatch(file)
    if (near !== null) return `The project has "${near}". Names differ in case here: write it exactly so.`
    if (!distributionFile.test(file))
      return 'The project has no such file. Add it, or correct the name; host files cannot be read.'
    const found = debianPackages.find(([pattern]) => pattern.test(file))
    return found
      ? `An operator can add it to the worker with: apt-get install ${found[1]}. Or add the file to the project.`
      : 'It is not installed on the worker. Add the file to the project, or ask an operator to install it; "platen capabilities" lists what there is.'
  }
  const language = /Unknown option '(\w+)'\. Either you misspelled it or the language/.exec(message)?.[1]
  if (language !== undefined) {
    const found = debianPackages.find(([pattern]) => pattern.test(`${language}.ldf`))
    return found ? `An operator can add the language to the worker with: apt-get install ${found[1]}` : null
  }
  return general.find(([pattern]) => pattern.test(message))?.[1] ?? null
}

const general: readonly (readonly [pattern: RegExp, hint: string])[] = [
  [
    /requires either XeTeX or LuaTeX|requires XeTeX|requires LuaTeX|cannot-use-pdftex/,
    'Choose the engine XeLaTeX or LuaLaTeX: write "% !TEX program = xelatex" on the first line, or pass --engine xelatex.',
  ],
  [
    /-shell-escape|shell escape|\\write18/i,
    'Documents may not run programs here. Prepare what the package would make, or use one that needs no shell, such as listings in place of minted.',
  ],
  [
    /The font "[^"]*" cannot be found/,
    'Put the font file into the project and name it by its file: \\setmainfont{Name.ttf}[Path=fonts/]. "platen capabilities" lists installed fonts.',
  ],
  [
    /Missing character: There is no/,
    'The chosen font has no such letter, so it is missing in the document. Choose another font, or XeLaTeX or LuaLaTeX.',
  ],
  [
    /Citation .* undefined|didn't find a database entry|could not be found|The following entry could not be found/i,
    'No entry of the bibliography has this key.',
  ],
  [
    /TeX capacity exceeded/,
    'The document asks more of TeX than it has; most often a macro that calls itself without end.',
  ],
  [
    /Unicode character .* not set up for use with LaTeX|Invalid UTF-8 byte/,
    'Use XeLaTeX or LuaLaTeX, or load a package that defines this character.',
  ],
  [/Undefined control sequence/, 'The command is misspelled, or the package that defines it is not loaded.'],
  [/File ended while scanning/, 'A brace or an \\end is missing before the end of the file.'],
]
