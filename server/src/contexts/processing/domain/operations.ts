import type { ArtifactRole, Operation } from '@platen/worker/protocol'

export interface ResultRole {
  readonly mediaType: string
  /** A delivery without it is incomplete. */
  readonly required: boolean
  /** May also explain a failure. */
  readonly explains: boolean
  readonly extension: string
}

/** What each operation Core knows may deliver. */
export const resultRoles: Readonly<Record<Operation, Partial<Record<ArtifactRole, ResultRole>>>> = {
  'latex.compile.pdf/v1': {
    pdf: { mediaType: 'application/pdf', required: true, explains: false, extension: 'pdf' },
    log: { mediaType: 'text/plain', required: false, explains: true, extension: 'log' },
    synctex: { mediaType: 'application/gzip', required: false, explains: false, extension: 'synctex.gz' },
  },
  'typst.export.pptx/v1': {
    pptx: {
      mediaType: 'application/vnd.openxmlformats-officedocument.presentationml.presentation',
      required: true,
      explains: false,
      extension: 'pptx',
    },
    report: { mediaType: 'application/json', required: false, explains: true, extension: 'report.json' },
  },
  'pptx.import.typst/v1': {
    bundle: { mediaType: 'application/x-tar', required: true, explains: false, extension: 'tar' },
    report: { mediaType: 'application/json', required: false, explains: true, extension: 'report.json' },
  },
}

/** A name for a result file that every disk can keep, from the project's own name. */
export function resultFileName(projectName: string, role: ResultRole): string {
  const stem = projectName
    .normalize('NFC')
    .replaceAll(/[\p{Cc}\p{Cf}/\\:*?"<>|]/gu, '-')
    .replaceAll(/^[. -]+|[. ]+$/g, '')
    .slice(0, 100)
  return `${stem || 'document'}.${role.extension}`
}
