import { expect, test } from 'vitest'
import { projectPathProblem, treeProblem } from './project-path.ts'

test.each(['main.tex', 'a/b/c.tex', 'Übung/größe.tex', '...', 'a..b', '日本語.tex', 'a\\b', `${'a'.repeat(255)}`])(
  'accepts %j',
  (path) => {
    expect(projectPathProblem(path)).toBeNull()
  },
)

test.each([
  ['', 'is empty'],
  ['/etc/passwd', 'is absolute'],
  ['../x', 'has a ".." segment'],
  ['a/../x', 'has a ".." segment'],
  ['a/..', 'has a ".." segment'],
  ['./x', 'has a "." segment'],
  ['a//b', 'has an empty segment'],
  ['a/', 'has an empty segment'],
  ['a\0b', 'has a control character'],
  ['a\nb', 'has a control character'],
  ['e\u0301.tex', 'is not in Unicode normalization form C'],
  ['\ud800', 'is not well-formed Unicode'],
  ['é'.repeat(128), 'has a name longer than 255 bytes'],
])('refuses %j: %s', (path, problem) => {
  expect(projectPathProblem(path)).toBe(problem)
})

test('refuses a path longer than 1024 characters', () => {
  expect(projectPathProblem(`${'a/'.repeat(512)}a`)).toBe('is longer than 1024 characters')
})

test('accepts a tree that ascends by UTF-16 code units', () => {
  expect(treeProblem(['B', 'a', 'a.b', 'a0', 'b/c', '\u{1f600}', '\uff21'])).toBeNull()
  expect(treeProblem([])).toBeNull()
})

test.each([
  [['a', 'a'], 'path "a" appears twice'],
  [['b', 'a'], 'path "a" is out of order'],
  [['a', 'a/b'], 'path "a" is both a file and a directory'],
  [['a', 'a.b', 'a/b/c'], 'path "a" is both a file and a directory'],
  [['a', '../b'], 'path "../b" has a ".." segment'],
])('refuses the tree %j: %s', (paths, problem) => {
  expect(treeProblem(paths)).toBe(problem)
})
