import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

const database = ['test/support/database-server.ts']
const unitTests = ['worker', 'server', 'sdk', 'web-widget', 'scripts', 'bench'].map((room) => `${room}/**/*.test.ts`)

// Vite would take graphql's `module` entry where Node takes `main`, and there would be two of it.
const asNodeDoes = { alias: [{ find: /^graphql$/, replacement: fileURLToPath(import.meta.resolve('graphql')) }] }

// Two cores are the smallest machine this has to be comfortable on; what starts whole processes runs one file at a time.
export default defineConfig({
  test: {
    maxWorkers: 2,
    projects: [
      { test: { name: 'unit', include: unitTests, sequence: { groupOrder: 0 } } },
      {
        test: {
          name: 'architecture',
          include: ['test/architecture/**/*.test.ts'],
          testTimeout: 60_000,
          sequence: { groupOrder: 0 },
        },
      },
      {
        resolve: asNodeDoes,
        test: {
          name: 'integration',
          include: ['test/integration/**/*.test.ts'],
          globalSetup: database,
          testTimeout: 30_000,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          name: 'conformance',
          include: ['test/conformance/**/*.test.ts'],
          globalSetup: database,
          testTimeout: 30_000,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          name: 'e2e',
          include: ['test/e2e/**/*.test.ts'],
          globalSetup: database,
          maxWorkers: 1,
          testTimeout: 120_000,
          hookTimeout: 120_000,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
})
