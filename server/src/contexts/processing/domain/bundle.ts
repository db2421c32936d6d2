import type { ProjectManifest } from '@platen/worker/protocol'
import type { SnapshotDescriptor } from '../../workspace/index.ts'

/** The manifest of a snapshot. Nothing volatile enters it: equal projects have equal manifests. */
export function manifestOf(snapshot: SnapshotDescriptor): ProjectManifest {
  return {
    schema: 'project-bundle/v1',
    project_type: snapshot.projectType,
    entry_path: snapshot.entryPath,
    settings: { engine: snapshot.engine },
    workspace_version: 1,
    content_generation: snapshot.generation,
    source_epoch: snapshot.sourceEpoch,
    files: snapshot.files.map(({ path, kind, byteLength, sha256 }) => ({
      path,
      kind,
      byte_length: byteLength,
      sha256,
    })),
  }
}
