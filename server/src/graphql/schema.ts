import './scalars.ts'
import './errors.ts'
import '../contexts/access/graphql/viewer.ts'
import '../contexts/workspace/graphql/project.ts'
import '../contexts/workspace/graphql/mutations.ts'
import '../contexts/processing/graphql/job.ts'
import '../contexts/processing/graphql/capabilities.ts'
import '../contexts/processing/graphql/submissions.ts'
import { builder } from './builder.ts'

export const schema = builder.toSchema()
