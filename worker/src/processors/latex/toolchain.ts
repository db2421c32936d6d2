import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { canonicalJson, type LatexEngine } from '../../protocol/index.ts'
import { hostCommand } from '../../sdk/index.ts'

export interface Toolchain {
  readonly engines: readonly LatexEngine[]
  /** For example `TeX Live 2022/Debian`. */
  readonly distribution: string
  /** Names of styles and classes. */
  readonly packages: readonly string[]
  /** Font families. */
  readonly fonts: readonly string[]
  /** Name and version of each Debian package that takes part, sorted. */
  readonly versions: readonly string[]
}

/** All that the documents of a common deployment need, in one call. */
const aptPackages =
  'texlive-latex-recommended texlive-fonts-recommended texlive-plain-generic texlive-xetex texlive-luatex texlive-bibtex-extra biber latexmk lmodern texlive-font-utils ghostscript poppler-utils'

const debianPatterns = [
  'texlive*',
  'tex-common',
  'biber',
  'latexmk',
  'lmodern',
  'ghostscript',
  'libgs*',
  'fonts-*',
  'cm-super*',
  'libkpathsea*',
  'libsynctex*',
]
const listFiles = ['/usr/share/texlive/texmf-dist/ls-R', '/usr/share/texmf/ls-R', '/usr/local/share/texmf/ls-R']
/** `capabilities` carries at most 256 KiB of facts. */
const mostNames = 8_000

/** @returns what this host has, or a sentence that says what is missing and how to install it */
export async function findToolchain(): Promise<Toolchain | { readonly problem: string }> {
  const missing = [
    ['/usr/bin/latexmk', 'latexmk'],
    ['/usr/bin/pdflatex', 'TeX Live'],
  ].flatMap(([path = '', name = '']) => (existsSync(path) ? [] : [name]))
  if (missing.length > 0) {
    return {
      problem: `LaTeX jobs need ${missing.join(' and ')}: apt-get install --no-install-recommends ${aptPackages}`,
    }
  }
  const [version, luaotfload, dpkg, fonts, lists] = await Promise.all([
    hostCommand('/usr/bin/pdflatex', ['--version']),
    hostCommand('/usr/bin/kpsewhich', ['luaotfload-main.lua']),
    // biome-ignore lint/suspicious/noTemplateCurlyInString: placeholders of dpkg-query
    hostCommand('/usr/bin/dpkg-query', ['-W', '-f', '${Package} ${Version}\n', ...debianPatterns]),
    hostCommand('/usr/bin/fc-list', [':', 'family']),
    Promise.all(listFiles.map((path) => readFile(path, 'latin1').catch(() => ''))),
  ])
  if (version === null) return { problem: 'pdflatex is there but does not run; see "pdflatex --version" on this host.' }
  const engines: LatexEngine[] = ['pdflatex']
  if (existsSync('/usr/bin/xelatex')) engines.push('xelatex')
  // The program alone comes with the base packages; without its font loader it is of no use.
  if (existsSync('/usr/bin/lualatex') && luaotfload?.trim()) engines.push('lualatex')
  return {
    engines,
    distribution: /TeX Live \d{4}(?:\/\w+)?/.exec(version)?.[0] ?? version.split('\n')[0] ?? 'TeX',
    packages: sortedNames(
      lists.flatMap((list) => [...list.matchAll(/^([\w.+-]+)\.(?:sty|cls)$/gm)].map(([, name]) => name ?? '')),
    ),
    fonts: sortedNames((fonts ?? '').split('\n').map((line) => (line.split(',')[0] ?? '').trim())),
    versions: (dpkg ?? '')
      .split('\n')
      .filter((line) => / \S/.test(line))
      .sort(),
  }
}

const sortedNames = (names: readonly string[]): string[] =>
  [...new Set(names.filter(Boolean))].sort().slice(0, mostNames)

/** Equal digests promise equal results: version of the processor, its rules, and all of the toolchain. */
export const contractOf = (
  processor: { name: string; version: string; rules: unknown },
  toolchain: Toolchain,
): string =>
  createHash('sha256')
    .update(
      canonicalJson({ processor, versions: toolchain.versions, fonts: toolchain.fonts, engines: toolchain.engines }),
    )
    .digest('hex')
