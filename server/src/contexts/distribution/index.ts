export { type Deployment, parseDeployment, type Worker } from './deployment.ts'
