import { readdir, readFile, realpath, stat } from 'node:fs/promises'
import { join, sep } from 'node:path'

export interface LocalFile {
  /** In the project: relative, with `/`, composed. */
  readonly path: string
  /** On disk. */
  readonly source: string
  readonly byteLength: number
}

export interface Walk {
  readonly files: readonly LocalFile[]
  /** What was left out although it may have been meant, one sentence each. */
  readonly remarks: readonly string[]
}

const skippedDirectories = new Set(['.git', '.hg', '.svn', 'node_modules', '.platen', '__MACOSX', '.idea', '.vscode'])
const skippedFiles = new Set(['.DS_Store', 'Thumbs.db', '.platenignore', '.gitignore', '.gitattributes'])
/** What TeX writes beside a document. A .bbl is not among them: bundles for publishers have it in place of the .bib. */
const byProduct =
  /\.(aux|log|fls|fdb_latexmk|synctex(\.gz)?|synctex\(busy\)|out|toc|lof|lot|nav|snm|vrb|bcf|blg|run\.xml|xdv|dvi|idx|ilg|ind|glo|gls|glg|acn|acr|alg|loa|lol|thm|spl|upa|upb|brf)$/i

/**
 * Lists the files of a folder that make up its project.
 *
 * @param excluded absolute paths to leave out, such as the one the result is written to
 */
export async function walkProject(root: string, excluded: readonly string[] = []): Promise<Walk> {
  const directory = await realpath(root)
  const ignored = await readIgnore(directory)
  const files: LocalFile[] = []
  const remarks: string[] = []
  const rest = ['']
  for (let folder = rest.pop(); folder !== undefined; folder = rest.pop()) {
    for (const entry of await readdir(join(directory, folder), { withFileTypes: true })) {
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`
      const source = join(directory, path)
      if (ignored(path) || excluded.includes(source)) continue
      if (entry.isDirectory()) {
        if (!skippedDirectories.has(entry.name)) rest.push(path)
        continue
      }
      if (skippedFiles.has(entry.name)) continue
      const target = entry.isSymbolicLink() ? await linkTarget(source, directory) : source
      if (target === null || target === 'outside') {
        remarks.push(
          `${path} links to something ${target === null ? 'that is not there' : 'outside of the folder'} and was left out.`,
        )
        continue
      }
      const facts = await stat(target).catch(() => null)
      if (facts?.isFile()) files.push({ path: path.normalize('NFC'), source: target, byteLength: facts.size })
      else remarks.push(`${path} is not a plain file and was left out.`)
    }
  }
  return { files: withoutByProducts(files).sort((a, b) => (a.path < b.path ? -1 : 1)), remarks }
}

/** A PDF beside a source of its name is what a build left; any other may be a picture. */
function withoutByProducts(files: readonly LocalFile[]): LocalFile[] {
  const paths = new Set(files.map((file) => file.path))
  return files.filter(({ path }) => {
    const stem = path.replace(/\.pdf$/i, '')
    if (stem !== path && paths.has(`${stem}.tex`)) return false
    return !byProduct.test(path)
  })
}

/** @returns where a link leads inside the folder, `outside`, or null if it leads nowhere */
async function linkTarget(source: string, directory: string): Promise<string | 'outside' | null> {
  const target = await realpath(source).catch(() => null)
  return target === null || target.startsWith(directory + sep) ? target : 'outside'
}

/** Lines of `.platenignore`: a path, or a name anywhere; `*` stands for any characters but `/`. */
async function readIgnore(directory: string): Promise<(path: string) => boolean> {
  const text = await readFile(join(directory, '.platenignore'), 'utf8').catch(() => '')
  const patterns = text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const anchored = line.replace(/\/$/, '').includes('/')
      const body = line
        .replace(/^\/|\/$/g, '')
        .split('*')
        .map((part) => part.replaceAll(/[.+?^${}()|[\]\\]/g, '\\$&'))
        .join('[^/]*')
      return new RegExp(anchored ? `^${body}(/|$)` : `(^|/)${body}(/|$)`)
    })
  return (path) => patterns.some((pattern) => pattern.test(path))
}
