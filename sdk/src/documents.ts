/** What the client asks; a test holds each against the schema. */
const job = `
  id operation state phase version attempt createdAt startedAt finishedAt waitingReason cancelRequested
  project { id name }
  failure { class message limit { name value } }
  diagnostics { severity file line message context hint }
  artifacts { id role mediaType fileName byteLength sha256 downloadUrl }
  inputDigest processorContract`
const file = 'path kind byteLength sha256'
const errors = `
  ... on Error { message code }
  ... on ValidationError { issues { path message code } }`

export const documents = {
  viewer: 'query Viewer { viewer { id name } }',
  capabilities:
    'query Capabilities { capabilities { operation state processors { name version contract engines distribution packages fonts } } }',
  project: `query Project($id: ID!) { project(id: $id) { id name type files { ${file} } } }`,
  job: `query Job($id: ID!) { job(id: $id) { ${job} } }`,
  jobs: `query Jobs($filter: JobFilter, $first: Int, $after: String) {
    jobs(filter: $filter, first: $first, after: $after) { edges { node { ${job} } } pageInfo { hasNextPage endCursor } } }`,
  watchJob: `subscription WatchJob($id: ID!) { job(id: $id) { ${job} } }`,
  createProject: `mutation CreateProject($input: CreateProjectInput!) { result: createProject(input: $input) {
    __typename ... on CreateProjectPayload { project { id name type files { ${file} } } } ${errors} } }`,
  writeDocument: `mutation WriteDocument($input: WriteDocumentInput!) { result: writeDocument(input: $input) {
    __typename ... on WriteDocumentPayload { file { ${file} } } ${errors} } }`,
  createUpload: `mutation CreateUpload($input: CreateUploadInput!) { result: createUpload(input: $input) {
    __typename ... on CreateUploadPayload { upload { id url } } ... on QuotaExceededError { retryAfterSeconds } ${errors} } }`,
  writeAsset: `mutation WriteAsset($input: WriteAssetInput!) { result: writeAsset(input: $input) {
    __typename ... on WriteAssetPayload { file { ${file} } } ${errors} } }`,
  deleteFile: `mutation DeleteFile($input: DeleteFileInput!) { result: deleteFile(input: $input) {
    __typename ... on DeleteFilePayload { deletedPath } ${errors} } }`,
  buildProject: `mutation BuildProject($input: BuildProjectInput!) { result: buildProject(input: $input) {
    __typename ... on BuildProjectPayload { replayed job { ${job} } } ... on QuotaExceededError { retryAfterSeconds } ${errors} } }`,
  cancelJob: `mutation CancelJob($input: CancelJobInput!) { result: cancelJob(input: $input) {
    __typename ... on CancelJobPayload { job { ${job} } } ${errors} } }`,
} as const
