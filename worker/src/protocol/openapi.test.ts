import { expect, test } from 'vitest'
import { printOpenApi } from './openapi.ts'
import { problemStatuses, routes } from './routes.ts'

const document = JSON.parse(printOpenApi())

test('describes every route of the table, and nothing else', () => {
  const described = Object.values<Record<string, { operationId: string }>>(document.paths).flatMap((methods) =>
    Object.values(methods).map((operation) => operation.operationId),
  )
  expect(described.sort()).toEqual(Object.keys(routes).sort())
})

test('every reference leads to a component', () => {
  const references = [...printOpenApi().matchAll(/"\$ref": "([^"]+)"/g)].map(([, target]) => target as string)
  expect(references.length).toBeGreaterThan(30)
  for (const reference of new Set(references)) {
    expect(Object.keys(document.components.schemas).map((id) => `#/components/schemas/${id}`)).toContain(reference)
  }
})

test('every POST requires an idempotency key, and no transfer does', () => {
  for (const [path, methods] of Object.entries<Record<string, { parameters: { name: string }[] }>>(document.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const names = operation.parameters.map(({ name }) => name)
      expect([path, names.includes('Idempotency-Key')]).toEqual([path, method === 'post'])
    }
  }
})

test('every refusal is described under the status of its code', () => {
  const { responses } = document.paths['/claims/{claim_id}/complete'].post
  expect(responses[409].description.split(', ')).toEqual(['claim_cancelled', 'claim_lost', 'idempotency_key_in_use'])
  for (const code of routes.completeClaim.problems) {
    expect(responses[problemStatuses[code]].description).toContain(code)
  }
})
