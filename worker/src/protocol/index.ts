export * from './manifest.ts'
export * from './messages.ts'
export * from './words.ts'
