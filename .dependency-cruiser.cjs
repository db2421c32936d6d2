// Who may import whom; CONTRIBUTING.md shows the rooms. test/architecture plants a violation of each rule, because a
// parser that cannot read TypeScript would see no imports at all and pass.

const tests = '\\.test\\.ts$'
const context = '^server/src/contexts/([^/]+)/'
const protocol = '^worker/src/protocol/'

/** A file inside `room` of a context; `$1` in the target is the context's name. */
const room = (name) => ({ path: `${context}${name}/`, pathNot: tests })

/** @type {import('dependency-cruiser').IConfiguration} */
module.exports = {
  forbidden: [
    {
      name: 'no-cycles',
      comment: 'Modules that need each other are one module, or share a third.',
      severity: 'error',
      from: {},
      to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } },
    },
    {
      name: 'resolvable',
      comment: 'An import that leads nowhere escapes every other rule.',
      severity: 'error',
      from: {},
      to: { couldNotResolve: true },
    },
    {
      name: 'contexts-through-their-facade',
      comment: "Another context's index.ts is the only file of it that may be imported.",
      severity: 'error',
      from: { path: context, pathNot: [tests, '/graphql/'] },
      to: {
        path: '^server/src/contexts/',
        pathNot: ['^server/src/contexts/$1/', '^server/src/contexts/[^/]+/index\\.ts$'],
      },
    },
    {
      name: 'graphql-through-facades-and-types',
      comment:
        'GraphQL types refer to each other across contexts, as the schema is one; to anything else the way is the facade.',
      severity: 'error',
      from: { path: '^server/src/contexts/([^/]+)/graphql/', pathNot: tests },
      to: {
        path: '^server/src/contexts/',
        pathNot: ['^server/src/contexts/$1/', '^server/src/contexts/[^/]+/(index\\.ts$|graphql/)'],
      },
    },
    {
      name: 'server-through-facades',
      comment: 'What serves all contexts knows their facades, and of their insides the GraphQL types alone.',
      severity: 'error',
      from: { path: '^server/src/(graphql|http)/', pathNot: tests },
      to: { path: '^server/src/contexts/', pathNot: '^server/src/contexts/[^/]+/(index\\.ts$|graphql/)' },
    },
    {
      name: 'domain-is-pure',
      comment:
        'Decisions are values: no I/O, clock, logger or framework; of the platform only ids and the error class.',
      severity: 'error',
      from: room('domain'),
      to: {
        path: ['^server/src/', '^worker/src/', 'node_modules'],
        pathNot: [
          '^server/src/contexts/$1/domain/',
          '^server/src/contexts/[^/]+/index\\.ts$',
          '^server/src/platform/(ids|errors)\\.ts$',
          '^server/src/config/limits\\.ts$',
          protocol,
          'node_modules/(zod|yjs|canonicalize)/',
        ],
      },
    },
    {
      name: 'domain-does-no-io',
      comment: 'Of Node only what computes.',
      severity: 'error',
      from: room('domain'),
      to: { dependencyTypes: ['core'], pathNot: '^(node:)?(crypto|path|path/posix|buffer|util)$' },
    },
    {
      name: 'store-below-commands',
      comment:
        'A store knows its own domain and the platform. It is called, it does not call; it asks no other context.',
      severity: 'error',
      from: room('store'),
      to: {
        path: '^server/src/',
        pathNot: [
          '^server/src/contexts/$1/(domain|store)/',
          '^server/src/platform/',
          '^server/src/config/limits\\.ts$',
        ],
      },
    },
    {
      name: 'commands-below-edges',
      comment: 'A use case does not know through which edge it is called.',
      severity: 'error',
      from: room('commands'),
      to: { path: '^server/src/contexts/$1/(graphql|http)/|^server/src/(graphql|http|app|main)' },
    },
    {
      name: 'edges-use-commands',
      comment: 'GraphQL types and routes call commands; a statement called from an edge escapes authorization.',
      severity: 'error',
      from: room('(graphql|http)'),
      to: { path: '^server/src/contexts/[^/]+/store/' },
    },
    {
      name: 'platform-has-no-business',
      comment: 'The platform serves every context and knows none.',
      severity: 'error',
      from: { path: '^server/src/(platform|config)/', pathNot: tests },
      to: { path: '^server/src/(contexts|graphql|http|app|main)' },
    },
    {
      name: 'one-composition-root',
      comment: 'app.ts puts everything together; what imports it is the process, or a test.',
      severity: 'error',
      from: { path: '^(server|worker|sdk|web-widget)/', pathNot: ['^server/src/main\\.ts$', tests] },
      to: { path: '^server/src/(app|main)\\.ts$' },
    },
    {
      name: 'clients-do-not-import-the-server',
      comment: 'They speak its protocols.',
      severity: 'error',
      from: { path: '^(worker|sdk|web-widget)/' },
      to: { path: '^server/' },
    },
    {
      name: 'only-the-protocol-is-shared',
      comment: 'Everyone else knows of the worker the words of its protocol, nothing more.',
      severity: 'error',
      from: { path: '^(server|sdk|web-widget)/', pathNot: tests },
      to: { path: '^worker/', pathNot: protocol },
    },
    {
      name: 'protocol-is-a-leaf',
      comment: 'It is imported by both sides, so it may bring nothing along but zod.',
      severity: 'error',
      from: { path: protocol, pathNot: tests },
      to: { pathNot: [protocol, 'node_modules/zod/', '^(node:)?crypto$'] },
    },
    {
      name: 'processors-use-the-sdk',
      comment: 'First-party processors use what every processor author gets.',
      severity: 'error',
      from: { path: '^worker/src/processors/', pathNot: tests },
      to: { path: '^worker/src/', pathNot: ['^worker/src/processors/', '^worker/src/sdk/', protocol] },
    },
    {
      name: 'only-the-sandbox-spawns',
      comment: 'In the worker a process is started in worker/src/sandbox and nowhere else.',
      severity: 'error',
      from: { path: '^worker/src/', pathNot: ['^worker/src/sandbox/', tests] },
      to: { path: '^(node:)?child_process$' },
    },
    {
      name: 'no-test-code-in-sources',
      comment: 'What ships does not depend on what tests it.',
      severity: 'error',
      from: { path: '^(server|worker|sdk|web-widget|scripts)/', pathNot: tests },
      to: { path: `^test/|${tests}` },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    exclude: { path: '(^|/)(dist|\\.types)/' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.base.json' },
    combinedDependencies: true,
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'node', 'default', 'types'],
      extensions: ['.ts', '.mjs', '.js', '.json'],
    },
  },
}
