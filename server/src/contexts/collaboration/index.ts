export { Collaboration } from './commands/collaboration.ts'
